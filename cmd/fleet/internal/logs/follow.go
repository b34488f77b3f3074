package logs

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// logsFollow prints the decisions of one cluster's agent as they come.
type logsFollow struct {
	o     Options
	s     *client.Session
	shown map[journal.Entry]bool // decisions that were printed, each with its count
	log   logTable
	began bool
}

// Follow prints the last decisions of a cluster's agent, and then each new one
// until ctx ends. A decision that is made again is printed again, with its count.
func Follow(ctx context.Context, o Options, s *client.Session) error {
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
			s.Std.Note("%v", err) // it may be made yet
		}
	}
	f := logsFollow{o: o, s: s, shown: map[journal.Entry]bool{}, log: newLogTable(s, o, true)}
	q := client.Query{Resource: cli.MustKind("clusters").Resource(), Namespace: c.Namespace, Fields: client.NameField(c.Name)}
	return s.FollowAll(ctx, []client.Query{q}, f.printChanges)
}

// printChanges prints what is new in a cluster.
func (f *logsFollow) printChanges(batch []client.Change) error {
	for _, x := range batch {
		if x.Kind == watch.Deleted {
			f.s.Std.Note("cluster %s is deleted", client.KeyText(x.Object))
			continue
		}
		c, err := client.Convert[fleet.Cluster](x.Object)
		if err != nil {
			return err
		}
		lines, err := f.o.linesOf(c)
		if err != nil {
			f.s.Std.Note("warning: %v", err)
			continue
		}
		if err := f.printNew(c, lines); err != nil {
			return err
		}
	}
	return nil
}

// printNew prints those lines that were not printed before. Only the first time they are
// limited to the last ones that the user wants.
func (f *logsFollow) printNew(c *fleet.Cluster, lines []journal.Entry) error {
	now := map[journal.Entry]bool{}
	for _, e := range lines {
		now[e] = true
	}
	fresh := slices.DeleteFunc(slices.Clone(lines), func(e journal.Entry) bool { return f.shown[e] })
	f.shown = now
	if !f.began {
		fresh = fresh[max(0, len(fresh)-f.o.Lines):]
		if len(lines) == 0 {
			f.s.Std.Note("%s", nothingLogged(c, f.o.Bundle))
		}
	}
	f.began = true
	switch {
	case len(fresh) == 0:
		return nil
	case f.o.Output.IsMachineReadable():
		return f.o.Output.Print(f.s.Std, agentLog(c, fresh), true)
	}
	f.log.printLines(fresh)
	return nil
}
