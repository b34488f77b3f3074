package status

import (
	"context"
	"reflect"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// How many rows the parts of the screen have, unless -o wide asks for all.
const (
	MaxAttention = 20
	MaxMoving    = 20
)

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Output   printer.Output
	Watch    bool
	ExitCode bool
}

// Run prints the screen once.
func Run(ctx context.Context, o Options, s *client.Session) error {
	f, err := s.ReadFleet(ctx)
	if err != nil {
		return err
	}
	if len(f.Clusters)+len(f.Repositories)+len(f.HelmOps)+len(f.Bundles) == 0 {
		s.EmptyWorkspace()
	}
	s.NoteStray(ctx, f.StrayNamespaces())
	m, b, err := s.Surroundings(ctx)
	if err != nil {
		return err
	}
	if f.Shards, err = s.Shards(ctx, f); err != nil {
		return err
	}
	s.NoteManagerHidden(m)
	s.NoteHelmOpsHidden(f)
	s.NoteManager(ctx, m)
	doc := document(s, f, view.NewSnapshot(f, m, s.Now()), b)
	if o.Output.IsMachineReadable() {
		err = o.Output.Print(s.Std, doc, false)
	} else {
		o.screen(s, doc)
	}
	if err != nil || !o.ExitCode {
		return err
	}
	switch {
	case !doc.Settled():
		return cli.EndingWith(cli.ErrNotReady)
	case doc.Offline.Count > 0:
		return cli.EndingWith(cli.ErrPartly)
	}
	return nil
}

// document is the document of a glance at a fleet.
func document(s *client.Session, f view.Fleet, g view.StatusSnapshot, b view.GlobalPause) FleetStatus {
	doc := FleetStatus{
		Document: printer.NewDocument("FleetStatus"), At: s.Now().UTC().Truncate(time.Second), Server: s.Server, Suspended: b.On, Status: g.Status,
		names: namesakesOf(f),
	}
	if b.On {
		doc.Brake = &b
	}
	return doc
}

// statusWatch is a status that goes on.
type statusWatch struct {
	o                Options
	s                *client.Session
	began            time.Time
	surroundingsRead time.Time // when manager and brake were
	manager          view.Manager
	shards           map[string]view.Manager
	globalPause      view.GlobalPause
	glance           view.StatusSnapshot
	doc              FleetStatus
	followed         followed
}

// Watch prints the screen, and then what happens until ctx ends.
func Watch(ctx context.Context, o Options, s *client.Session, w client.FleetWatch) error {
	t := statusWatch{o: o, s: s, began: s.Now(), surroundingsRead: s.Now(), followed: newFollowed(w.Fleet())}
	var err error
	if t.manager, t.globalPause, err = s.Surroundings(ctx); err != nil {
		return err
	}
	f := w.Fleet()
	if t.shards, err = s.Shards(ctx, f); err != nil {
		return err
	}
	f.Shards = t.shards
	s.NoteManagerHidden(t.manager)
	s.NoteHelmOpsHidden(f)
	s.NoteManager(ctx, t.manager)
	t.glance = view.NewSnapshot(f, t.manager, s.Now())
	t.doc = document(s, f, t.glance, t.globalPause)
	if o.Output.IsMachineReadable() {
		err = o.Output.Print(s.Std, t.doc, true)
	} else {
		o.screen(s, t.doc)
	}
	for err == nil {
		if err = w.Next(ctx); err == nil {
			err = t.printEvents(ctx, w.Fleet())
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printEvents prints what has happened since the last look.
func (sw *statusWatch) printEvents(ctx context.Context, f view.Fleet) error {
	now, was := sw.s.Now(), sw.globalPause
	if now.Sub(sw.surroundingsRead) >= client.AskAgain {
		sw.surroundingsRead = now
		if m, b, err := sw.s.Surroundings(ctx); err != nil {
			sw.s.NoteWatchError(err)
		} else {
			sw.manager, sw.globalPause = m, b
		}
		if shards, err := sw.s.Shards(ctx, f); err != nil {
			sw.s.NoteWatchError(err)
		} else {
			sw.shards = shards
		}
	}
	f.Shards = sw.shards
	glance := view.NewSnapshot(f, sw.manager, now)
	doc := document(sw.s, f, glance, sw.globalPause)
	lines := append(sw.followed.nextEvents(f, now), view.Changes(sw.glance, glance, now)...)
	if sw.globalPause.On != was.On {
		lines = append(lines, globalPauseEvent(sw.globalPause, now))
	}
	changed := !reflect.DeepEqual(unsigned(sw.doc), unsigned(doc))
	sw.glance, sw.doc = glance, doc
	switch {
	case !sw.o.Output.IsMachineReadable():
		printer.PrintLines(sw.s.Std.Out, "", lines, now.Sub(sw.began))
	case changed:
		return sw.o.Output.Print(sw.s.Std, doc, true)
	}
	return nil
}

func globalPauseEvent(b view.GlobalPause, now time.Time) view.EventLine {
	if b.On {
		return view.EventLine{Word: "brake", Text: b.Text(now)}
	}
	return view.EventLine{Word: "brake", Text: "off"}
}

// unsigned is a document without what changes with time alone, or is not printed.
func unsigned(doc FleetStatus) FleetStatus {
	doc.At, doc.Manager.LastSign, doc.names = time.Time{}, nil, nil
	return doc
}

// followed holds the goal and the last verdict of each repository, from commit to commit.
type followed map[view.Key]*followedRepo

type followedRepo struct {
	goal    view.Goal
	verdict view.Verdict
}

// newFollowed begins with the present state, which is no change.
func newFollowed(f view.Fleet) followed {
	s := followed{}
	s.nextEvents(f, time.Time{})
	return s
}

// nextEvents reports what has happened since the last call.
func (fl followed) nextEvents(f view.Fleet, now time.Time) []view.EventLine {
	var lines []view.EventLine
	spaces := map[string]bool{}
	for _, r := range f.Repositories {
		spaces[r.Namespace] = true
	}
	for _, r := range f.Repositories {
		prefix := ""
		if len(spaces) > 1 {
			prefix = r.Namespace + ": "
		}
		key := view.Key{Namespace: r.Namespace, Name: r.Name}
		t := fl[key]
		if t == nil || t.goal.Commit != r.Status.Commit {
			t = &followedRepo{goal: view.Goal{Kind: "GitRepo", Key: key, Commit: r.Status.Commit}}
			fl[key] = t
		}
		f.Ordered = true // lines show what was reported; the answers are those of fleet wait
		v := view.Evaluate(t.goal, f)
		for _, l := range view.EventLines(t.goal, t.verdict, v, "", now) {
			if l.Word != "fail" && l.Word != "defer" && l.Word != "wait" { // these are shown as what needs attention
				lines = append(lines, view.EventLine{Word: l.Word, Text: prefix + l.Text})
			}
		}
		t.verdict = v
	}
	return lines
}
