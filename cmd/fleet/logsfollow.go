package main

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// logsFollow prints the decisions of one cluster's agent as they come.
type logsFollow struct {
	o     logsOptions
	s     *session
	shown map[journal.Entry]bool // decisions that were printed, each with its count
	log   logTable
	began bool
}

// followLogs prints the last decisions of a cluster's agent, and then each new one
// until ctx ends. A decision that is made again is printed again, with its count.
func followLogs(ctx context.Context, o logsOptions, s *session) error {
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
			s.std.Note("%v", err) // it may be made yet
		}
	}
	f := logsFollow{o: o, s: s, shown: map[journal.Entry]bool{}, log: newLogTable(s, o, true)}
	q := query{resource: mustKind("clusters").resource(), namespace: c.Namespace, fields: nameField(c.Name)}
	return s.followAll(ctx, []query{q}, f.take)
}

// take prints what is new in a cluster.
func (f *logsFollow) take(batch []change) error {
	for _, x := range batch {
		if x.kind == watch.Deleted {
			f.s.std.Note("cluster %s is deleted", keyText(x.object))
			continue
		}
		c, err := as[fleet.Cluster](x.object)
		if err != nil {
			return err
		}
		lines, err := f.o.linesOf(c)
		if err != nil {
			f.s.std.Note("warning: %v", err)
			continue
		}
		if err := f.print(c, lines); err != nil {
			return err
		}
	}
	return nil
}

// print prints those lines that were not printed before. Only the first time they are
// limited to the last ones that the user wants.
func (f *logsFollow) print(c *fleet.Cluster, lines []journal.Entry) error {
	now := map[journal.Entry]bool{}
	for _, e := range lines {
		now[e] = true
	}
	fresh := slices.DeleteFunc(slices.Clone(lines), func(e journal.Entry) bool { return f.shown[e] })
	f.shown = now
	if !f.began {
		fresh = fresh[max(0, len(fresh)-f.o.lines):]
		if len(lines) == 0 {
			f.s.std.Note("%s", nothingLogged(c, f.o.bundle))
		}
	}
	f.began = true
	switch {
	case len(fresh) == 0:
		return nil
	case f.o.output.Machine():
		return f.o.output.Print(f.s.std, agentLog(c, fresh), true)
	}
	f.log.print(fresh)
	return nil
}
