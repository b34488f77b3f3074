package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const logsText = `Shows the last decisions of a cluster's agent, oldest first: what it installed, upgraded, put back, removed, waits for or refuses, and why. There
are at most 50. A decision that is made again and again is one line, with a count.

The agent tells them with its check-ins, so they are as old as the last one; on the site, fleet-agent status shows them too. They hold names,
words and texts of errors, and no values.`

var logsFormats = []string{formatWide, formatJSON, formatYAML}

type logsOptions struct {
	cluster string
	bundle  string
	lines   int
	output  output
	bare    bool
}

func newLogsCommand(g *globals, std stdio) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use: "logs CLUSTER", Short: "Show what a cluster's agent has decided", Long: logsText, Args: wantCluster,
		Example:           "  fleet logs c2\n  fleet logs c2 --bundle shop-web",
		ValidArgsFunction: g.completeKind(std, "clusters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.check(logsFormats...); err != nil {
				return err
			}
			if o.lines < 0 {
				return fmt.Errorf("--lines must not be below 0")
			}
			o.cluster = strings.TrimPrefix(args[0], "cluster/")
			s, err := g.connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runLogs(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.addFlag(fs, logsFormats...)
	fs.StringVar(&o.bundle, "bundle", "", "only decisions about this `bundle`")
	fs.IntVar(&o.lines, "lines", journal.MaxLines, "only the last `N`")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	return cmd
}

// wantCluster refuses a command without exactly one cluster.
func wantCluster(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want a CLUSTER, for example: fleet logs c2")
	}
	return nil
}

// runLogs prints the journal of one cluster's agent.
func runLogs(ctx context.Context, o logsOptions, s *session) error {
	c, err := s.oneCluster(ctx, o.cluster)
	if err != nil {
		return err
	}
	lines, err := journal.Unpack(c.Status.Agent.Journal)
	if err != nil {
		return fmt.Errorf("cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	if o.bundle != "" {
		lines = slices.DeleteFunc(lines, func(e journal.Entry) bool { return e.Deployment != o.bundle })
	}
	lines = lines[max(0, len(lines)-o.lines):]
	if o.output.machine() {
		return o.output.print(s.std.out, agentLog(c, lines), false)
	}
	if len(lines) == 0 {
		s.std.note("%s", nothingLogged(c, o.bundle))
		return nil
	}
	printLog(s, o, lines)
	if display := c.Status.Display.State; display == fleet.Offline {
		s.std.note("%s is Offline: this is what was told up to %s (%s ago)", c.Name,
			view.Clock(c.Status.Agent.LastSeen.Time, s.now()), view.Ago(c.Status.Agent.LastSeen.Time, s.now()))
	}
	return nil
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
	return k.unknown(name, s.scope, known)
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

var logColumns = []column{{title: "LAST"}, {title: "TIMES"}, {title: "SINCE"}, {title: "BUNDLE"}, {title: "DID"}, {title: "WHY"}, {title: "MESSAGE"}}

// printLog prints lines as a table. TIMES and SINCE are there if anything was
// repeated.
func printLog(s *session, o logsOptions, lines []journal.Entry) {
	repeated := slices.ContainsFunc(lines, func(e journal.Entry) bool { return e.Times > 1 })
	t := &table{out: s.std.out}
	if !o.output.wide() {
		t.width = s.std.width()
	}
	show := t.show(logColumns, func(c column) bool {
		return repeated || o.output.wide() || c.title != "TIMES" && c.title != "SINCE"
	})
	var rows [][]string
	for _, e := range lines {
		times, since := "", ""
		if e.Times > 1 {
			times, since = fmt.Sprint(e.Times), view.Clock(e.First, s.now())
		}
		rows = append(rows, show([]string{view.Clock(e.At, s.now()), times, since, dash(e.Deployment), e.Verb, dash(e.Reason), e.Message}))
	}
	t.print(rows, o.bare)
}

// AgentLog is what fleet logs prints.
type AgentLog struct {
	Document
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// LastSeen is when its agent checked in last.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
	// Lines are the last decisions, the newest last.
	Lines []journal.Entry `json:"lines"`
}

func agentLog(c *fleet.Cluster, lines []journal.Entry) AgentLog {
	doc := AgentLog{Document: document("AgentLog"), Cluster: c.Namespace + "/" + c.Name, Lines: lines}
	if !c.Status.Agent.LastSeen.IsZero() {
		at := c.Status.Agent.LastSeen.UTC()
		doc.LastSeen = &at
	}
	if doc.Lines == nil {
		doc.Lines = []journal.Entry{}
	}
	return doc
}

// completeKind completes the name of one object of a kind.
func (g *globals) completeKind(std stdio, kind string) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.completeNames(cmd.Context(), std, kind), cobra.ShellCompDirectiveNoFileComp
	}
}
