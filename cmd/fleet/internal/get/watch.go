package get

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Watch prints what o asks for, and then every change until ctx ends.
func Watch(ctx context.Context, o Options, s *client.Session) error {
	qs, err := s.QueriesFor(ctx, o.kind, o.selector())
	if err != nil {
		return err
	}
	var named []cli.ObjectRef
	for _, name := range o.names {
		named = append(named, cli.ObjectRef{Kind: o.kind, Name: name})
	}
	if err := o.unknownNamesError(ctx, s, named...); err != nil {
		s.Std.Note("%v", err) // it may be made yet
	}
	w := getWatch{o: o, s: s, shown: map[string]string{}}
	return s.FollowAll(ctx, qs, func(batch []client.Change) error { return w.printChanges(ctx, batch) })
}

// getWatch prints objects as they change.
type getWatch struct {
	o     Options
	s     *client.Session
	table *printer.Table
	show  func(row) []string
	shown map[string]string // what was last printed of an object: cells without times, or the version
}

// printChanges prints changes that came together.
func (w *getWatch) printChanges(ctx context.Context, batch []client.Change) error {
	x, err := w.o.readRowContext(ctx, w.s)
	if err != nil {
		return err
	}
	var items []*unstructured.Unstructured
	gone := false
	for _, c := range batch {
		if len(w.o.names) == 0 || slices.Contains(w.o.names, c.Object.GetName()) {
			items = append(items, c.Object)
			gone = c.Kind == watch.Deleted
		}
	}
	entries, err := w.o.entries(ctx, w.s, items, x)
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b tableEntry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return w.printEntries(entries, gone)
}

// printEntries prints the entries in which more than a time has changed. It notes objects that
// are gone.
func (w *getWatch) printEntries(entries []tableEntry, gone bool) error {
	if w.o.Output.IsMachineReadable() {
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
		w.table.ReserveWidth("STATE", len(fleet.WaitApplied))
	}
	var rows [][]string
	for _, e := range entries {
		if gone {
			delete(w.shown, client.KeyText(e.object))
			w.s.Std.Note("%s %s is deleted", w.o.kind.Singular, e.row.workspace+"/"+e.object.GetName())
			continue
		}
		if cells := w.show(e.row); w.hasChanged(e, cells) {
			rows = append(rows, cells)
		}
	}
	w.table.Print(rows, w.o.noHeaders || !first)
	return nil
}

// document prints an object, once for each version of it.
func (w *getWatch) document(e tableEntry, gone bool) error {
	version, known := w.shown[client.KeyText(e.object)]
	if known && version == e.object.GetResourceVersion() && !gone {
		return nil
	}
	w.shown[client.KeyText(e.object)] = e.object.GetResourceVersion()
	if w.o.Output == printer.FormatName {
		printer.Fprintf(w.s.Std.Out, "%s\n", w.o.kind.Qualified()+"/"+e.object.GetName())
		return nil
	}
	return w.o.Output.Print(w.s.Std, printer.WithoutManagedFields(e.object), true)
}

// hasChanged reports whether the cells of a row differ from what was printed of its
// object last, in more than times.
func (w *getWatch) hasChanged(e tableEntry, cells []string) bool {
	var text strings.Builder
	for i, c := range w.table.Columns {
		if !c.Clock {
			text.WriteString(cells[i] + "\x00")
		}
	}
	key := client.KeyText(e.object)
	if w.shown[key] == text.String() {
		return false
	}
	w.shown[key] = text.String()
	return true
}
