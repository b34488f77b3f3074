package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

const statusText = `Tells how this agent and its deployments are, from their own cluster alone: it works where the manager does not, and changes nothing.

  kubectl -n cattle-fleet-system exec deploy/fleet-agent -- fleet-agent status

Exit codes: 0 it could be told; 1 it could not; with --exit-code also 3: the manager is away, or a bundle is not Ready.`

// errNotReady ends status --exit-code where something is not as it should be.
var errNotReady = errors.New("not ready")

// Formats of -o.
const (
	formatJSON = "json"
	formatYAML = "yaml"
)

type statusOptions struct {
	output   string
	lines    int
	exitCode bool
}

// statusCommand reports how the agent and its deployments are, from their own
// cluster alone: it works where the manager does not.
func statusCommand(o *options) *cobra.Command {
	var so statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how this agent and its deployments are, without the manager",
		Long:  statusText,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := so.validate(); err != nil {
				return err
			}
			quietLibraries()
			own, err := kube.RESTConfig(o.kubeconfig)
			if err != nil {
				return fmt.Errorf("connect to this cluster: %w", err)
			}
			seen, err := agent.Inspect(cmd.Context(), o.Config, own)
			if err != nil {
				return err
			}
			return so.print(cmd.OutOrStdout(), seen, time.Now())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&so.output, "output", "o", "", "output `format`: json|yaml")
	fs.IntVar(&so.lines, "lines", 10, "how many of the last decisions to show, at most 50")
	fs.BoolVar(&so.exitCode, "exit-code", false, "end with 3 if the manager is away or a bundle is not Ready")
	return cmd
}

func (so statusOptions) validate() error {
	switch {
	case so.output != "" && so.output != formatJSON && so.output != formatYAML:
		return fmt.Errorf("no output format %q; there are json, yaml", so.output)
	case so.lines < 0:
		return errors.New("--lines must not be below 0")
	}
	return nil
}

// print writes an overview in the requested form. Nothing in it moves the cursor of a
// terminal, to which kubectl exec may write it.
func (so statusOptions) print(out io.Writer, o agent.Overview, now time.Time) error {
	out = printable.NewWriter(out)
	var err error
	switch so.output {
	case formatJSON:
		var data []byte
		if data, err = json.MarshalIndent(documentOf(o, now), "", "    "); err == nil {
			_, err = fmt.Fprintln(out, string(data))
		}
	case formatYAML:
		var data []byte
		if data, err = yaml.Marshal(documentOf(o, now)); err == nil {
			_, err = out.Write(data)
		}
	default:
		err = so.printText(out, o, now)
	}
	if err == nil && so.exitCode && !isHealthy(o) {
		err = errNotReady
	}
	return err
}

// isHealthy reports whether nothing is left to wish for.
func isHealthy(o agent.Overview) bool {
	for _, r := range o.Rows {
		if r.State != fleet.Ready {
			return false
		}
	}
	return o.Registered && o.Reached
}

// printText writes an overview for people.
func (so statusOptions) printText(out io.Writer, o agent.Overview, now time.Time) error {
	if !o.Registered {
		fmt.Fprintln(out, "manager      not registered: install the chart fleet-agent with the values of a registration token")
	} else {
		printable.Fprintf(out, "manager      %s\n", managerLine(o, now))
		printable.Fprintf(out, "credential   %s\n", credentialLine(o, now))
	}
	if o.Hint != "" {
		printable.Fprintf(out, "             %s\n", o.Hint)
	}
	fmt.Fprintln(out, "working from "+keptLine(o, now))
	if len(o.Rows) > 0 {
		fmt.Fprintln(out)
		if err := printRows(out, o.Rows, now); err != nil {
			return err
		}
	}
	for _, r := range o.Rows {
		if r.Message != "" {
			printable.Fprintf(out, "%s: %s\n", r.Bundle, r.Message)
		}
	}
	if !o.Reached {
		fmt.Fprintln(out, "nothing is removed while the manager is away")
	}
	return so.printJournal(out, o.Journal, now)
}

func printRows(out io.Writer, rows []agent.Row, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "BUNDLE\tCOMMIT\tSTATE\tSINCE\tWHILE ALONE")
	for _, r := range rows {
		printable.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Bundle, shortCommit(r.Commit), r.State, clock(r.Since, now), offlineActionText(r, now))
	}
	return w.Flush()
}

// printJournal writes the last decisions.
func (so statusOptions) printJournal(out io.Writer, lines []journal.Entry, now time.Time) error {
	lines = lines[max(0, len(lines)-so.lines):]
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "LAST\tBUNDLE\tDID\tWHY\tMESSAGE")
	for _, e := range lines {
		message := e.Message
		if e.Times > 1 {
			message = strings.TrimSpace(fmt.Sprintf("%s (%d times since %s)", message, e.Times, clock(e.First, now)))
		}
		printable.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clock(e.At, now), orDash(e.Deployment), e.Verb, orDash(e.Reason), message)
	}
	return w.Flush()
}

func managerLine(o agent.Overview, now time.Time) string {
	host := strings.TrimPrefix(strings.TrimPrefix(o.URL, "https://"), "http://")
	again := againText(o, now)
	switch {
	case o.Reached && o.Next.IsZero():
		return fmt.Sprintf("reached (%s) for %s, as cluster %s", host, formatAge(now.Sub(o.Since)), o.Cluster)
	case o.Reached:
		return fmt.Sprintf("reached (%s), as cluster %s; %s", host, o.Cluster, again)
	case o.Since.IsZero():
		return fmt.Sprintf("not reached yet (%s), %s", host, again)
	case o.Refused:
		return fmt.Sprintf("refuses this agent for %s (%s), %s", formatAge(now.Sub(o.Since)), host, again)
	}
	return fmt.Sprintf("unreachable for %s (%s: %s), %s", formatAge(now.Sub(o.Since)), host, lastPart(o.Error), again)
}

// againText says when the agent connects or tries next.
func againText(o agent.Overview, now time.Time) string {
	if !o.Next.IsZero() {
		return "connects next at " + clock(o.Next, now)
	}
	if at := o.NextTry(now); !at.IsZero() {
		return "next try in " + formatAge(at.Sub(now).Round(time.Second))
	}
	return "tried again within 20s"
}

func credentialLine(o agent.Overview, now time.Time) string {
	switch {
	case o.Refused:
		return "refused"
	case o.Ends.IsZero():
		return "valid until revoked"
	case now.After(o.Ends):
		return "ended at " + clock(o.Ends, now) + ", another one is fetched when the manager answers"
	}
	return "valid until " + clock(o.Ends, now) + ", renewed before that"
}

// keptLine says what the agent works from.
func keptLine(o agent.Overview, now time.Time) string {
	text := countText(len(o.Rows), "bundle") + " accepted"
	if !o.Accepted.IsZero() {
		text += " up to " + clock(o.Accepted, now)
	}
	text += ", kept in this cluster"
	if o.KeptBytes > 0 {
		text += fmt.Sprintf(" (%d KiB)", (o.KeptBytes+1023)>>10)
	}
	return text
}

// lastPart is the cause at the end of a chain of errors.
func lastPart(text string) string {
	parts := strings.Split(text, ": ")
	return parts[len(parts)-1]
}

// done are the verbs of decisions as what has happened.
var done = map[string]string{
	"install": "installed", "upgrade": "upgraded", "correct": "corrected", "uninstall": "uninstalled", "forget": "forgotten",
	"hold": "held", "refuse": "refused", "wait": "waits",
}

// offlineActionText is what was done about a deployment while the manager was away.
func offlineActionText(r agent.Row, now time.Time) string {
	switch {
	case r.Alone != nil:
		word := done[r.Alone.Verb]
		if word == "" {
			word = r.Alone.Verb
		}
		return strings.TrimSuffix(word+": "+r.Alone.Message, ": ")
	case !r.CorrectedAlone.IsZero():
		return "corrected at " + clock(r.CorrectedAlone, now)
	}
	return "-"
}

// clock is a time of today, or a date.
func clock(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case now.Sub(t).Abs() < 24*time.Hour:
		return t.Local().Format("15:04:05")
	}
	return t.Local().Format("2006-01-02")
}

// formatAge is a span in its largest unit.
func formatAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func shortCommit(commit string) string { return orDash(commit[:min(len(commit), 7)]) }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func countText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
