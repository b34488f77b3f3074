package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var statusFormats = []string{formatWide, formatJSON, formatYAML}

const statusText = `Shows a fleet on one screen: the sums, then only what needs a person, then what moves by itself.

With --watch it goes on with one line for everything that happens. With --exit-code it ends with 3 if something needs a person or
moves, and with 6 if all is Ready but for clusters that are Offline.`

// maxAttention is how many rows the screen has, unless -o wide asks for all.
const maxAttention = 20

type statusOptions struct {
	output   output
	watch    bool
	exitCode bool
}

func newStatusCommand(g *globals, std stdio) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use: "status", Short: "Show a fleet on one screen", Long: statusText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.check(statusFormats...); err != nil {
				return err
			}
			s, err := g.connect(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			if !o.watch {
				return runStatus(cmd.Context(), o, s)
			}
			w, err := g.watch(cmd.Context(), s)
			if err != nil {
				return err
			}
			return watchStatus(cmd.Context(), o, s, w)
		},
	}
	fs := cmd.Flags()
	o.output.addFlag(fs, statusFormats...)
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
	doc, _, err := s.statusOf(ctx, f)
	if err != nil {
		return err
	}
	if o.output.machine() {
		err = o.output.print(s.std.out, doc, false)
	} else {
		o.screen(s, doc)
	}
	if err != nil || !o.exitCode {
		return err
	}
	switch {
	case !doc.Settled():
		return told{errNotReady}
	case doc.Offline.Count > 0:
		return told{errPartly}
	}
	return nil
}

// statusOf makes the document of a fleet.
func (s *session) statusOf(ctx context.Context, f view.Fleet) (FleetStatus, view.Glance, error) {
	m, err := s.manager(ctx)
	if err != nil {
		return FleetStatus{}, view.Glance{}, err
	}
	b, err := s.brake(ctx)
	if err != nil {
		return FleetStatus{}, view.Glance{}, err
	}
	g := view.Look(f, m, s.now())
	doc := FleetStatus{
		Document: document("FleetStatus"), At: s.now().UTC().Truncate(time.Second), Server: s.server, Suspended: b.On, Status: g.Status,
	}
	if b.On {
		doc.Brake = &b
	}
	return doc, g, nil
}

// watchStatus prints the screen, and then what happens until ctx ends.
func watchStatus(ctx context.Context, o statusOptions, s *session, w world) error {
	doc, before, err := s.statusOf(ctx, w.Fleet())
	if err != nil {
		return err
	}
	if o.output.machine() {
		err = o.output.print(s.std.out, doc, true)
	} else {
		o.screen(s, doc)
	}
	began, stories := s.now(), newStories(w.Fleet())
	for err == nil {
		if err = w.Next(ctx); err != nil {
			break
		}
		f := w.Fleet()
		is, after, lookErr := s.statusOf(ctx, f)
		if lookErr != nil {
			s.trouble(lookErr)
			continue
		}
		if !o.output.machine() {
			lines := append(stories.next(f, s.now()), view.Changes(before, after, s.now())...)
			printLines(s.std.out, "", lines, s.now().Sub(began))
		} else if !reflect.DeepEqual(doc.Status, is.Status) || doc.Suspended != is.Suspended {
			err = o.output.print(s.std.out, is, true)
		}
		doc, before = is, after
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printLines prints what happened, with the time since the command began.
func printLines(out interface{ Write([]byte) (int, error) }, prefix string, lines []view.Line, elapsed time.Duration) {
	for _, l := range lines {
		fmt.Fprintf(out, "%s  %-6s  %s%s\n", view.Elapsed(elapsed), l.Word, prefix, l.Text)
	}
}

// stories follow each repository from commit to commit.
type stories map[view.Key]*story

type story struct {
	goal    view.Goal
	verdict view.Verdict
}

// newStories begins with what is there, which is no news.
func newStories(f view.Fleet) stories {
	s := stories{}
	s.next(f, time.Time{})
	return s
}

// next tells what has happened since the last call.
func (s stories) next(f view.Fleet, now time.Time) []view.Line {
	var lines []view.Line
	for _, r := range f.Repositories {
		key := view.Key{Namespace: r.Namespace, Name: r.Name}
		t := s[key]
		if t == nil || t.goal.Commit != r.Status.Commit {
			t = &story{goal: view.Goal{Kind: "GitRepo", Key: key, Commit: r.Status.Commit}}
			s[key] = t
		}
		v := view.Judge(t.goal, f)
		for _, l := range view.Story(t.goal, t.verdict, v, "", now) {
			if l.Word != "fail" && l.Word != "defer" { // told as what needs attention
				lines = append(lines, l)
			}
		}
		t.verdict = v
	}
	return lines
}
