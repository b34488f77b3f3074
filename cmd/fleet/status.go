package main

import (
	"context"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var statusFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

const statusText = `Shows a fleet on one screen: the sums, then only what needs a person, then what moves by itself.

With --watch it goes on with one line for everything that happens. With --exit-code it ends with 3 if something needs a person or
moves, and with 6 if all is Ready but for clusters that are Offline.`

// How many rows the parts of the screen have, unless -o wide asks for all.
const (
	maxAttention = 20
	maxMoving    = 20
)

// askAgain is how old the known state of manager and brake may become while a status is
// watched.
const askAgain = 10 * time.Second

type statusOptions struct {
	output   printer.Output
	watch    bool
	exitCode bool
}

func newStatusCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use: "status", Short: "Show a fleet on one screen", Long: statusText, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Check(statusFormats...); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			if !o.watch {
				return runStatus(cmd.Context(), o, s)
			}
			w, err := g.watch(cmd.Context(), s, selection{})
			if err != nil {
				return err
			}
			return watchStatus(cmd.Context(), o, s, w)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, statusFormats...)
	fs.BoolVarP(&o.watch, "watch", "w", false, "then tell everything that happens")
	fs.BoolVar(&o.exitCode, "exit-code", false, "end with 3 or 6 if not all is Ready")
	return cmd
}

// runStatus prints the screen once.
func runStatus(ctx context.Context, o statusOptions, s *session) error {
	f, err := s.look(ctx)
	if err != nil {
		return err
	}
	if len(f.Clusters)+len(f.Repositories)+len(f.Bundles) == 0 {
		s.emptyWorkspace()
	}
	s.noteStray(ctx, f.Stray())
	s.noteHelmOps(ctx)
	m, b, err := s.surroundings(ctx)
	if err != nil {
		return err
	}
	if f.Shards, err = s.shards(ctx, f); err != nil {
		return err
	}
	s.unseen(m)
	s.noteManager(ctx, m)
	doc := s.document(f, view.Look(f, m, s.now()), b)
	if o.output.Machine() {
		err = o.output.Print(s.std, doc, false)
	} else {
		o.screen(s, doc)
	}
	if err != nil || !o.exitCode {
		return err
	}
	switch {
	case !doc.Settled():
		return endingWith(errNotReady)
	case doc.Offline.Count > 0:
		return endingWith(errPartly)
	}
	return nil
}

// emptyWorkspace notes that nothing of Fleet is in the workspace of -n.
func (s *session) emptyWorkspace() {
	if s.scope != "" {
		s.std.Note("workspace %s is empty: it has no clusters, repositories and bundles", s.scope)
	}
}

// noteEmpty is emptyWorkspace, after a look at the workspace of -n.
func (s *session) noteEmpty(ctx context.Context) error {
	if s.scope == "" {
		return nil
	}
	f, err := s.look(ctx)
	if err == nil && len(f.Clusters)+len(f.Repositories)+len(f.Bundles) == 0 {
		s.emptyWorkspace()
	}
	return err
}

// surroundings are the manager and the brake.
func (s *session) surroundings(ctx context.Context) (view.Manager, view.Brake, error) {
	m, err := s.manager(ctx)
	if err != nil {
		return view.Manager{}, view.Brake{}, err
	}
	b, err := s.brake(ctx)
	return m, b, err
}

// unseen notes that this user may not see whether the manager runs.
func (s *session) unseen(m view.Manager) {
	if m.Hidden {
		s.std.Note("this user may not see leases in %s: whether the manager runs is not known", s.system)
	}
}

// document is the document of a glance at a fleet.
func (s *session) document(f view.Fleet, g view.Glance, b view.Brake) FleetStatus {
	doc := FleetStatus{
		Document: printer.NewDocument("FleetStatus"), At: s.now().UTC().Truncate(time.Second), Server: s.server, Suspended: b.On, Status: g.Status,
		names: namesakesOf(f),
	}
	if b.On {
		doc.Brake = &b
	}
	return doc
}

// statusWatch is a status that goes on.
type statusWatch struct {
	o        statusOptions
	s        *session
	began    time.Time
	asked    time.Time // when manager and brake were
	manager  view.Manager
	shards   map[string]view.Manager
	brake    view.Brake
	glance   view.Glance
	doc      FleetStatus
	followed followed
}

// watchStatus prints the screen, and then what happens until ctx ends.
func watchStatus(ctx context.Context, o statusOptions, s *session, w world) error {
	t := statusWatch{o: o, s: s, began: s.now(), asked: s.now(), followed: newFollowed(w.Fleet())}
	var err error
	if t.manager, t.brake, err = s.surroundings(ctx); err != nil {
		return err
	}
	f := w.Fleet()
	if t.shards, err = s.shards(ctx, f); err != nil {
		return err
	}
	f.Shards = t.shards
	s.unseen(t.manager)
	s.noteManager(ctx, t.manager)
	t.glance = view.Look(f, t.manager, s.now())
	t.doc = s.document(f, t.glance, t.brake)
	if o.output.Machine() {
		err = o.output.Print(s.std, t.doc, true)
	} else {
		o.screen(s, t.doc)
	}
	for err == nil {
		if err = w.Next(ctx); err == nil {
			err = t.look(ctx, w.Fleet())
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// look prints what has happened since the last look.
func (t *statusWatch) look(ctx context.Context, f view.Fleet) error {
	now, was := t.s.now(), t.brake
	if now.Sub(t.asked) >= askAgain {
		t.asked = now
		if m, b, err := t.s.surroundings(ctx); err != nil {
			t.s.trouble(err)
		} else {
			t.manager, t.brake = m, b
		}
		if shards, err := t.s.shards(ctx, f); err != nil {
			t.s.trouble(err)
		} else {
			t.shards = shards
		}
	}
	f.Shards = t.shards
	glance := view.Look(f, t.manager, now)
	doc := t.s.document(f, glance, t.brake)
	lines := append(t.followed.next(f, now), view.Changes(t.glance, glance, now)...)
	if t.brake.On != was.On {
		lines = append(lines, brakeLine(t.brake, now))
	}
	changed := !reflect.DeepEqual(unsigned(t.doc), unsigned(doc))
	t.glance, t.doc = glance, doc
	switch {
	case !t.o.output.Machine():
		printLines(t.s.std.Out, "", lines, now.Sub(t.began))
	case changed:
		return t.o.output.Print(t.s.std, doc, true)
	}
	return nil
}

func brakeLine(b view.Brake, now time.Time) view.EventLine {
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

// printLines prints what happened, with the time since the command began.
func printLines(out interface{ Write([]byte) (int, error) }, prefix string, lines []view.EventLine, elapsed time.Duration) {
	for _, l := range lines {
		printer.Say(out, "%s  %-6s  %s%s\n", view.Elapsed(elapsed), l.Word, prefix, l.Text)
	}
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
	s.next(f, time.Time{})
	return s
}

// next reports what has happened since the last call.
func (s followed) next(f view.Fleet, now time.Time) []view.EventLine {
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
		t := s[key]
		if t == nil || t.goal.Commit != r.Status.Commit {
			t = &followedRepo{goal: view.Goal{Kind: "GitRepo", Key: key, Commit: r.Status.Commit}}
			s[key] = t
		}
		f.Ordered = true // lines show what was reported; the answers are those of fleet wait
		v := view.Judge(t.goal, f)
		for _, l := range view.EventLines(t.goal, t.verdict, v, "", now) {
			if l.Word != "fail" && l.Word != "defer" && l.Word != "wait" { // these are shown as what needs attention
				lines = append(lines, view.EventLine{Word: l.Word, Text: prefix + l.Text})
			}
		}
		t.verdict = v
	}
	return lines
}
