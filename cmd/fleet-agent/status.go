package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// statusCommand tells how the agent and its deployments are, from their own
// cluster alone: it works where the manager does not.
func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how this agent and its deployments are, without the manager",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			quietLibraries()
			own, err := kube.RESTConfig(o.kubeconfig)
			if err != nil {
				return fmt.Errorf("connect to this cluster: %w", err)
			}
			seen, err := agent.Inspect(cmd.Context(), o.Config, own)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), seen, time.Now())
		},
	}
}

// printStatus writes an overview for people.
func printStatus(out io.Writer, o agent.Overview, now time.Time) error {
	if !o.Registered {
		fmt.Fprintln(out, "manager      not registered: install the chart fleet-agent with the values of a registration token")
	} else {
		fmt.Fprintln(out, "manager      "+managerLine(o, now))
		fmt.Fprintln(out, "credential   "+credentialLine(o))
	}
	if o.Hint != "" {
		fmt.Fprintln(out, "             "+o.Hint)
	}
	fmt.Fprintf(out, "working from %s accepted, kept in this cluster\n\n", count(len(o.Rows), "bundle"))
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "BUNDLE\tCOMMIT\tSTATE\tSINCE\tWHILE ALONE")
	for _, r := range o.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Bundle, short(r.Commit), r.State, clock(r.Since, now), note(r, now))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range o.Rows {
		if r.Message != "" {
			fmt.Fprintf(out, "%s: %s\n", r.Bundle, r.Message)
		}
	}
	if !o.Reached {
		fmt.Fprintln(out, "nothing is removed while the manager is away")
	}
	return nil
}

func managerLine(o agent.Overview, now time.Time) string {
	host := strings.TrimPrefix(strings.TrimPrefix(o.URL, "https://"), "http://")
	switch {
	case o.Reached:
		return fmt.Sprintf("reached (%s) for %s, as cluster %s", host, age(now.Sub(o.Since)), o.Cluster)
	case o.Since.IsZero():
		return fmt.Sprintf("not reached yet (%s)", host)
	case o.Refused:
		return fmt.Sprintf("refuses this agent for %s (%s), tried again within 30s", age(now.Sub(o.Since)), host)
	}
	return fmt.Sprintf("unreachable for %s (%s: %s), tried again within 30s", age(now.Sub(o.Since)), host, lastPart(o.Error))
}

func credentialLine(o agent.Overview) string {
	if o.Refused {
		return "refused"
	}
	return "valid until revoked"
}

// lastPart is the cause at the end of a chain of errors.
func lastPart(text string) string {
	parts := strings.Split(text, ": ")
	return parts[len(parts)-1]
}

func note(r agent.Row, now time.Time) string {
	if r.CorrectedAlone.IsZero() {
		return "-"
	}
	return "corrected at " + clock(r.CorrectedAlone, now)
}

// clock is a time of today, or a date.
func clock(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case now.Sub(t) < 24*time.Hour:
		return t.Local().Format("15:04:05")
	}
	return t.Local().Format("2006-01-02")
}

// age is a span in its largest unit.
func age(d time.Duration) string {
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

func short(commit string) string {
	if commit == "" {
		return "-"
	}
	return commit[:min(len(commit), 7)]
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
