package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	cluster string
	Bundle  string
	Lines   int
	Output  printer.Output
	Bare    bool
	Follow  bool
}

// Grammar is one cluster, which may be WORKSPACE/NAME.
var Grammar = cli.Grammar{Kinds: cli.ClusterGrammar.Kinds, Bare: cli.ClusterGrammar.Bare, Qualified: true}

// Complete reads the arguments, and refuses flags that do not go together.
func (o *Options) Complete(args []string) error {
	if err := o.Output.Check(Formats...); err != nil {
		return err
	}
	switch {
	case o.Lines < 0:
		return errors.New("--lines must not be below 0")
	case o.Lines == 0 && !o.Follow:
		return errors.New("--lines 0 shows nothing: it goes with --follow, which then shows new decisions alone")
	}
	ref, err := Grammar.ParseOne(args)
	o.cluster = ref.Name
	return err
}

// Run prints the journal of one cluster's agent.
func Run(ctx context.Context, o Options, s *client.Session) error {
	c, err := oneCluster(ctx, s, o.cluster)
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
	lines = lines[max(0, len(lines)-o.Lines):]
	if o.Output.IsMachineReadable() {
		return o.Output.Print(s.Std, agentLog(c, lines), false)
	}
	if len(lines) == 0 {
		s.Std.Note("%s", nothingLogged(c, o.Bundle))
		return nil
	}
	log := newLogTable(s, o, slices.ContainsFunc(lines, func(e journal.Entry) bool { return e.Times > 1 }))
	log.printLines(lines)
	if display := c.Status.Display.State; display == fleet.Offline {
		s.Std.Note("%s is Offline: this is what was told up to %s (%s ago)", c.Name,
			view.Clock(c.Status.Agent.LastSeen.Time, s.Now()), view.Ago(c.Status.Agent.LastSeen.Time, s.Now()))
	}
	return nil
}

// linesOf are the decisions of a cluster's agent that are asked for.
func (o Options) linesOf(c *fleet.Cluster) ([]journal.Entry, error) {
	lines, err := journal.Unpack(c.Status.Agent.Journal)
	if err != nil {
		return nil, fmt.Errorf("cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	if o.Bundle != "" {
		lines = slices.DeleteFunc(lines, func(e journal.Entry) bool { return e.Deployment != o.Bundle })
	}
	return lines, nil
}

// unknownBundle is an error if the bundle of --bundle is known to be in no workspace: one
// of another workspace may be deployed to the cluster.
func (o Options) unknownBundle(ctx context.Context, s *client.Session) error {
	all := *s
	all.Scope, all.Narrowed = "", true
	return all.NotThere(ctx, cli.ObjectRef{Kind: cli.MustKind("bundles"), Name: o.Bundle})
}

// oneCluster is the only cluster of a name, or of "<workspace>/<name>".
func oneCluster(ctx context.Context, s *client.Session, name string) (*fleet.Cluster, error) {
	k := cli.MustKind("clusters")
	qs, err := s.QueriesFor(ctx, k, "")
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
		q.Fields = "metadata.name=" + bare
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return nil, err
		}
		clusters, err := client.AllAs[fleet.Cluster](items)
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
		return nil, noCluster(ctx, s, k, name)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("cluster %q is in %s; choose with -n", name, strings.Join(spaces, " and "))
}

// noCluster is the error for a cluster that is not there.
func noCluster(ctx context.Context, s *client.Session, k cli.Kind, name string) error {
	all, err := client.ListAs[fleet.Cluster](ctx, s, k, "")
	if err != nil {
		return err
	}
	var known []view.Key
	for _, c := range all {
		known = append(known, view.Key{Namespace: c.Namespace, Name: c.Name})
	}
	if found, err := (&client.ExplainReader{S: s}).ListNamed(ctx, cli.MustKind("bundles"), name); err == nil && len(found) > 0 {
		return fmt.Errorf("no cluster %q: it is a bundle; fleet logs shows the agent of a cluster, and fleet explain %s why a bundle is not Ready", name, name)
	}
	return s.Unknown(ctx, k, name, known)
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
	s     *client.Session
	table *printer.Table
	show  func([]string) []string
	bare  bool
}

// newLogTable has TIMES and SINCE if anything was repeated, or may be.
func newLogTable(s *client.Session, o Options, repeated bool) logTable {
	t := &printer.Table{Out: s.Std.Out}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	show := t.Show(logColumns, func(c printer.Column) bool {
		return repeated || o.Output.IsWide() || c.Title != "TIMES" && c.Title != "SINCE"
	})
	return logTable{s, t, show, o.Bare}
}

// printLines prints lines, the first time with titles.
func (l *logTable) printLines(lines []journal.Entry) {
	var rows [][]string
	for _, e := range lines {
		times, since := "", ""
		if e.Times > 1 {
			times, since = fmt.Sprint(e.Times), view.Clock(e.First, l.s.Now())
		}
		rows = append(rows, l.show([]string{view.Clock(e.At, l.s.Now()), times, since, printer.OrDash(e.Deployment), e.Verb, printer.OrDash(e.Reason), e.Message}))
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
