package main

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watchGet prints what o asks for, and then every change until ctx ends.
func watchGet(ctx context.Context, o getOptions, s *session) error {
	qs, err := s.wide(ctx, o.kind, o.selector())
	if err != nil {
		return err
	}
	var named []objectRef
	for _, name := range o.names {
		named = append(named, objectRef{o.kind, name})
	}
	if err := o.unknowns(ctx, s, named...); err != nil {
		s.std.Note("%v", err) // it may be made yet
	}
	w := getWatch{o: o, s: s, shown: map[string]string{}}
	return s.followAll(ctx, qs, func(batch []change) error { return w.take(ctx, batch) })
}

// followAll reports all objects that the queries select at once, and then every change,
// one at a time, until ctx ends or report fails.
func (s *session) followAll(ctx context.Context, qs []query, report func([]change) error) error {
	changes := make(chan change)
	group, ctx := errgroup.WithContext(ctx)
	for _, q := range qs {
		group.Go(func() error {
			return reached(s.server, follow(ctx, s.api, q, func(c change) {
				select {
				case changes <- c:
				case <-ctx.Done():
				}
			}, s.trouble))
		})
	}
	group.Go(func() error {
		f := firstThenEach{lists: len(qs), report: report}
		for {
			select {
			case <-ctx.Done():
				return nil
			case c := <-changes:
				if err := f.take(c); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// firstThenEach holds changes back until all lists are complete.
type firstThenEach struct {
	lists  int // not complete yet
	first  []change
	report func([]change) error
}

func (f *firstThenEach) take(c change) error {
	switch {
	case c.object != nil && f.lists > 0:
		f.first = append(f.first, c)
		return nil
	case c.object != nil:
		return f.report([]change{c})
	}
	f.lists--
	if f.lists > 0 {
		return nil
	}
	return f.report(f.first)
}

// trouble notes that a watch was interrupted.
func (s *session) trouble(err error) {
	s.std.Note("warning: %v; trying again", reached(s.server, err))
}

// getWatch prints objects as they change.
type getWatch struct {
	o     getOptions
	s     *session
	table *printer.Table
	show  func(row) []string
	shown map[string]string // what was last printed of an object: cells without times, or the version
}

// take prints changes that came together.
func (w *getWatch) take(ctx context.Context, batch []change) error {
	x, err := w.o.around(ctx, w.s)
	if err != nil {
		return err
	}
	var items []*unstructured.Unstructured
	gone := false
	for _, c := range batch {
		if len(w.o.names) == 0 || slices.Contains(w.o.names, c.object.GetName()) {
			items = append(items, c.object)
			gone = c.kind == watch.Deleted
		}
	}
	entries, err := w.o.entries(ctx, w.s, items, x)
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.order(), b.order()) })
	return w.print(entries, gone)
}

// print prints the entries in which more than a time has changed. It notes objects that
// are gone.
func (w *getWatch) print(entries []entry, gone bool) error {
	if w.o.output.Machine() {
		for _, e := range entries {
			if err := w.document(e, gone); err != nil {
				return err
			}
		}
		return nil
	}
	first := w.table == nil
	if first {
		w.table, w.show = w.o.table(entries, w.s)
		w.table.Reserve("STATE", len(fleet.WaitApplied))
	}
	var rows [][]string
	for _, e := range entries {
		if gone {
			delete(w.shown, keyText(e.object))
			w.s.std.Note("%s %s is deleted", w.o.kind.singular, e.row.workspace+"/"+e.object.GetName())
			continue
		}
		if cells := w.show(e.row); w.changes(e, cells) {
			rows = append(rows, cells)
		}
	}
	w.table.Print(rows, w.o.bare || !first)
	return nil
}

// document prints an object, once for each version of it.
func (w *getWatch) document(e entry, gone bool) error {
	version, known := w.shown[keyText(e.object)]
	if known && version == e.object.GetResourceVersion() && !gone {
		return nil
	}
	w.shown[keyText(e.object)] = e.object.GetResourceVersion()
	if w.o.output == printer.FormatName {
		printer.Say(w.s.std.Out, "%s\n", w.o.kind.qualified()+"/"+e.object.GetName())
		return nil
	}
	return w.o.output.Print(w.s.std, plain(e.object), true)
}

// changes reports whether the cells of a row differ from what was printed of its
// object last, in more than times.
func (w *getWatch) changes(e entry, cells []string) bool {
	var text strings.Builder
	for i, c := range w.table.Columns {
		if !c.Clock {
			text.WriteString(cells[i] + "\x00")
		}
	}
	key := keyText(e.object)
	if w.shown[key] == text.String() {
		return false
	}
	w.shown[key] = text.String()
	return true
}
