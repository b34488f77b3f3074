package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const logsText = `Shows the last decisions of a cluster's agent, oldest first: what it installed, upgraded, put back, removed, waits for or refuses, and why. There
are at most 50. A decision that is made again and again is one line, with a count.

The agent tells them with its check-ins, so they are as old as the last one; on the site, fleet-agent status shows them too. They hold names,
words and texts of errors, and no values.`

var logsFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

type logsOptions struct {
	cluster string
	bundle  string
	lines   int
	output  printer.Output
	bare    bool
	follow  bool
}

func newLogsCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use: "logs CLUSTER", Short: "Show what a cluster's agent has decided", Long: logsText,
		Example:           "  fleet logs c2\n  fleet logs c2 --bundle shop-web",
		ValidArgsFunction: g.completeObjects(std, logsGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Check(logsFormats...); err != nil {
				return err
			}
			switch {
			case o.lines < 0:
				return errors.New("--lines must not be below 0")
			case o.lines == 0 && !o.follow:
				return errors.New("--lines 0 shows nothing: it goes with --follow, which then shows new decisions alone")
			}
			ref, err := logsGrammar.one(args)
			if err != nil {
				return err
			}
			o.cluster = ref.name
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.follow {
				return followLogs(cmd.Context(), o, s)
			}
			return runLogs(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, logsFormats...)
	fs.BoolVarP(&o.follow, "follow", "f", false, "then print each new decision, until interrupted")
	nameVar(fs, &o.bundle, "bundles", "bundle", "", "only decisions about this `bundle`")
	fs.IntVar(&o.lines, "lines", journal.MaxLines, "only the last `N`")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	g.completeObjectFlags(cmd, std)
	return cmd
}

// logsGrammar is one cluster, which may be WORKSPACE/NAME.
var logsGrammar = grammar{kinds: clusterGrammar.kinds, bare: clusterGrammar.bare, qualified: true}

// runLogs prints the journal of one cluster's agent.
func runLogs(ctx context.Context, o logsOptions, s *session) error {
	c, err := s.oneCluster(ctx, o.cluster)
	if err != nil {
		return err
	}
	lines, err := o.linesOf(c)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		if err := o.unknownBundle(ctx, s); err != nil {
			return err
		}
	}
	lines = lines[max(0, len(lines)-o.lines):]
	if o.output.Machine() {
		return o.output.Print(s.std, agentLog(c, lines), false)
	}
	if len(lines) == 0 {
		s.std.Note("%s", nothingLogged(c, o.bundle))
		return nil
	}
	log := newLogTable(s, o, slices.ContainsFunc(lines, func(e journal.Entry) bool { return e.Times > 1 }))
	log.print(lines)
	if display := c.Status.Display.State; display == fleet.Offline {
		s.std.Note("%s is Offline: this is what was told up to %s (%s ago)", c.Name,
			view.Clock(c.Status.Agent.LastSeen.Time, s.now()), view.Ago(c.Status.Agent.LastSeen.Time, s.now()))
	}
	return nil
}

// linesOf are the decisions of a cluster's agent that are asked for.
func (o logsOptions) linesOf(c *fleet.Cluster) ([]journal.Entry, error) {
	lines, err := journal.Unpack(c.Status.Agent.Journal)
	if err != nil {
		return nil, fmt.Errorf("cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	if o.bundle != "" {
		lines = slices.DeleteFunc(lines, func(e journal.Entry) bool { return e.Deployment != o.bundle })
	}
	return lines, nil
}

// unknownBundle is an error if the bundle of --bundle is known to be in no workspace: one
// of another workspace may be deployed to the cluster.
func (o logsOptions) unknownBundle(ctx context.Context, s *session) error {
	all := *s
	all.scope, all.narrowed = "", true
	return all.notThere(ctx, objectRef{mustKind("bundles"), o.bundle})
}

// oneCluster is the only cluster of a name, or of "<workspace>/<name>".
func (s *session) oneCluster(ctx context.Context, name string) (*fleet.Cluster, error) {
	k := mustKind("clusters")
	qs, err := s.wide(ctx, k, "")
	if err != nil {
		return nil, err
	}
	workspace, bare, qualified := strings.Cut(name, "/")
	if !qualified {
		workspace, bare = "", name
	}
	var found []*fleet.Cluster
	var spaces []string
	for _, q := range qs {
		q.fields = "metadata.name=" + bare
		items, err := s.all(ctx, q)
		if err != nil {
			return nil, err
		}
		clusters, err := allAs[fleet.Cluster](items)
		if err != nil {
			return nil, err
		}
		for _, c := range clusters {
			if !qualified || c.Namespace == workspace {
				found, spaces = append(found, c), append(spaces, c.Namespace)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, s.noCluster(ctx, k, name)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("cluster %q is in %s; choose with -n", name, strings.Join(spaces, " and "))
}

// noCluster is the error for a cluster that is not there.
func (s *session) noCluster(ctx context.Context, k kind, name string) error {
	all, err := listAs[fleet.Cluster](ctx, s, k, "")
	if err != nil {
		return err
	}
	var known []view.Key
	for _, c := range all {
		known = append(known, view.Key{Namespace: c.Namespace, Name: c.Name})
	}
	if found, err := (&reading{s: s}).named(ctx, mustKind("bundles"), name); err == nil && len(found) > 0 {
		return fmt.Errorf("no cluster %q: it is a bundle; fleet logs shows the agent of a cluster, and fleet explain %s why a bundle is not Ready", name, name)
	}
	return s.unknown(ctx, k, name, known)
}

// nothingLogged says why there is nothing to show.
func nothingLogged(c *fleet.Cluster, bundle string) string {
	switch {
	case len(c.Status.Agent.Journal) > 0 && bundle != "":
		return fmt.Sprintf("the agent of %s says nothing about bundle %s", c.Name, bundle)
	case c.Status.Agent.LastSeen.IsZero():
		return fmt.Sprintf("the agent of %s has not checked in yet", c.Name)
	}
	return fmt.Sprintf("the agent of %s tells none of its decisions: it is older than this, or of another implementation", c.Name)
}

var logColumns = []printer.Column{
	{Title: "LAST"}, {Title: "TIMES", Drop: 2}, {Title: "SINCE", Drop: 1}, {Title: "BUNDLE"}, {Title: "DID"}, {Title: "WHY"}, {Title: "MESSAGE", Text: true},
}

// logTable prints lines as a table.
type logTable struct {
	s     *session
	table *printer.Table
	show  func([]string) []string
	bare  bool
}

// newLogTable has TIMES and SINCE if anything was repeated, or may be.
func newLogTable(s *session, o logsOptions, repeated bool) logTable {
	t := &printer.Table{Out: s.std.Out}
	if !o.output.Wide() {
		t.Width = s.std.Width()
	}
	show := t.Show(logColumns, func(c printer.Column) bool {
		return repeated || o.output.Wide() || c.Title != "TIMES" && c.Title != "SINCE"
	})
	return logTable{s, t, show, o.bare}
}

// print prints lines, the first time with titles.
func (l *logTable) print(lines []journal.Entry) {
	var rows [][]string
	for _, e := range lines {
		times, since := "", ""
		if e.Times > 1 {
			times, since = fmt.Sprint(e.Times), view.Clock(e.First, l.s.now())
		}
		rows = append(rows, l.show([]string{view.Clock(e.At, l.s.now()), times, since, dash(e.Deployment), e.Verb, dash(e.Reason), e.Message}))
	}
	l.table.Print(rows, l.bare)
	l.bare = true
}

// AgentLog is what fleet logs prints.
type AgentLog struct {
	printer.Document
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// LastSeen is when its agent checked in last.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
	// Lines are the last decisions, the newest last.
	Lines []journal.Entry `json:"lines"`
}

func agentLog(c *fleet.Cluster, lines []journal.Entry) AgentLog {
	doc := AgentLog{Document: printer.NewDocument("AgentLog"), Cluster: c.Namespace + "/" + c.Name, Lines: lines}
	if !c.Status.Agent.LastSeen.IsZero() {
		at := c.Status.Agent.LastSeen.UTC()
		doc.LastSeen = &at
	}
	if doc.Lines == nil {
		doc.Lines = []journal.Entry{}
	}
	return doc
}
