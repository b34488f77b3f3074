package get

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// printAll prints entries in the format that was asked for.
func (o Options) printAll(entries []tableEntry, s *client.Session) error {
	switch {
	case o.Output == printer.FormatName:
		for _, e := range entries {
			printer.Fprintf(s.Std.Out, "%s\n", o.kind.Qualified()+"/"+e.object.GetName())
		}
		return nil
	case o.Output.IsMachineReadable():
		if len(o.names) > 0 && len(entries) == 0 {
			return nil
		}
		return o.Output.Print(s.Std, o.document(entries), false)
	case len(entries) == 0:
		return nil
	}
	t, show := o.table(entries, s)
	rows := make([][]string, len(entries))
	for i, e := range entries {
		rows[i] = show(e.row)
	}
	t.Print(rows, o.noHeaders)
	return nil
}

// document is the object alone where one was asked for by name, and a List as
// kubectl makes it otherwise.
func (o Options) document(entries []tableEntry) any {
	if len(o.names) == 1 && len(entries) == 1 {
		return printer.WithoutManagedFields(entries[0].object)
	}
	objects := make([]*unstructured.Unstructured, len(entries))
	for i, e := range entries {
		objects[i] = e.object
	}
	return printer.ListDocument(objects)
}

// table is an empty table with the columns that say something, and a function
// that picks their cells from a row.
func (o Options) table(entries []tableEntry, s *client.Session) (*printer.Table, func(row) []string) {
	return o.tableOf(kindColumns[o.kind.Plural], entries, s)
}

// tableOf is like table, with some columns only.
func (o Options) tableOf(columns []printer.Column, entries []tableEntry, s *client.Session) (*printer.Table, func(row) []string) {
	hidden := map[string]bool{
		"WORKSPACE": s.Scope != "" || !o.All && !o.Output.IsWide() && !o.Watch && len(workspacesOf(entries)) == 1,
		"BUNDLE":    o.bundle != "",
		"CLUSTER":   o.cluster != "",
	}
	t := &printer.Table{Out: s.Std.Out}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	trouble := slices.ContainsFunc(entries, needsAttention)
	pick := t.Show(columns, func(c printer.Column) bool {
		return !hidden[c.Title] && (!c.Wide || o.Output.IsWide() || trouble && c.Title == "MESSAGE")
	})
	return t, func(r row) []string { return pick(r.cells) }
}

// needsAttention reports whether an entry is paused, or a Cluster whose agent cannot work:
// its state alone does not say why.
func needsAttention(e tableEntry) bool {
	if e.row.pause != nil {
		return true
	}
	text, _, _ := unstructured.NestedString(e.object.Object, "status", "agent", "trouble")
	return text != ""
}

// sortByPath sorts entries by what a jsonpath finds in their objects: numbers
// by value, all else as text. Entries without it come first; a path that none of
// them has is an error.
func sortByPath(entries []tableEntry, path string) error {
	p, err := printer.Output(printer.JsonpathPrefix + path).Path()
	if err != nil {
		return fmt.Errorf("--sort-by: %w", err)
	}
	found := false
	keys := make(map[*unstructured.Unstructured]string, len(entries))
	for _, e := range entries {
		var out bytes.Buffer
		if err := p.Execute(&out, e.object.Object); err != nil {
			return fmt.Errorf("--sort-by: %w", err)
		}
		keys[e.object] = out.String()
		found = found || out.Len() > 0
	}
	if !found && len(entries) > 0 {
		return nothingToSortBy(entries[0].object, path)
	}
	slices.SortStableFunc(entries, func(a, b tableEntry) int {
		x, y := keys[a.object], keys[b.object]
		m, errX := strconv.ParseFloat(x, 64)
		n, errY := strconv.ParseFloat(y, 64)
		if errX == nil && errY == nil {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(x, y)
	})
	return nil
}

// nothingToSortBy is the error for a path that no object has, with the fields
// that are there instead.
func nothingToSortBy(u *unstructured.Unstructured, path string) error {
	fields := u.Object
	for _, name := range strings.Split(strings.Trim(path, "{}."), ".") {
		next, ok := fields[name].(map[string]any)
		if !ok || len(next) == 0 {
			break
		}
		fields = next
	}
	known := slices.Sorted(maps.Keys(fields))
	return fmt.Errorf("--sort-by %s: no object has that field; there are: %s", path, strings.Join(known, ", "))
}
