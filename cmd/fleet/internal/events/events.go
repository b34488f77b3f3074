package events

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Kind   cli.Kind
	Name   string // empty: all objects
	Output printer.Output
	Watch  bool
	Bare   bool
}

// Grammar is what events may be about: all kinds.
func Grammar() cli.Grammar { return cli.GrammarOf(cli.KindNames()...) }

// subjects are what is asked for.
func (o Options) subjects(ctx context.Context, s *client.Session) ([]client.Subject, error) {
	if o.Name == "" {
		return allSubjects(ctx, s)
	}
	qs, err := s.QueriesFor(ctx, o.Kind, "")
	if err != nil {
		return nil, err
	}
	var all []view.Key
	var out []client.Subject
	for _, q := range qs {
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, u := range items {
			all = append(all, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
			if u.GetName() == o.Name {
				out = append(out, client.Subject{Namespace: u.GetNamespace(), Kind: o.Kind.Kind, Name: o.Name})
			}
		}
	}
	if len(out) == 0 {
		return nil, s.Unknown(ctx, o.Kind, o.Name, all)
	}
	return out, nil
}

// allSubjects is Fleet's objects in all namespaces that the user may look at,
// within -n.
func allSubjects(ctx context.Context, s *client.Session) ([]client.Subject, error) {
	qs, err := s.QueriesFor(ctx, cli.MustKind("clusters"), "")
	if err != nil {
		return nil, err
	}
	var out []client.Subject
	for _, q := range qs {
		out = append(out, client.Subject{Namespace: q.Namespace})
	}
	return out, nil
}

// Run prints events, and with -w new ones until ctx ends.
func Run(ctx context.Context, o Options, s *client.Session) error {
	xs, err := o.subjects(ctx, s)
	if err != nil {
		return err
	}
	if o.Watch {
		return o.followEvents(ctx, s, xs)
	}
	var items []*unstructured.Unstructured
	for _, x := range xs {
		found, err := s.ListAll(ctx, x.Query())
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	rows, err := eventRows(items, s.Now())
	if err != nil {
		return err
	}
	if o.Output.IsMachineReadable() {
		objects := make([]*unstructured.Unstructured, len(rows))
		for i, r := range rows {
			objects[i] = r.object
		}
		return o.Output.Print(s.Std, printer.ListDocument(objects), false)
	}
	if len(rows) == 0 {
		s.Std.Note("no events%s", o.nothingText(s.Scope))
		s.NoteNoManager(ctx)
		return nil
	}
	t, show := o.newTable(s, rows)
	t.Print(eventCells(rows, show), o.Bare)
	return nil
}

func eventCells(rows []eventRow, show func([]string) []string) [][]string {
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = show(r.cells)
	}
	return out
}

func (o Options) nothingText(scope string) string {
	text := ""
	if o.Name != "" {
		text = " about " + o.Kind.Singular + " " + o.Name
	}
	if scope != "" {
		text += " in " + scope
	}
	return text
}

// eventRow is one event in a table.
type eventRow struct {
	object *unstructured.Unstructured
	at     time.Time
	cells  []string
}

var eventColumns = []printer.Column{
	{Title: "AT"}, {Title: "TYPE", Drop: 1}, {Title: "REASON"}, {Title: "WORKSPACE"}, {Title: "OBJECT"}, {Title: "MESSAGE", Text: true},
}

// eventRows reads events of either API and sorts them by time.
func eventRows(items []*unstructured.Unstructured, now time.Time) ([]eventRow, error) {
	var rows []eventRow
	for _, u := range items {
		e, err := client.Convert[corev1.Event](u)
		if err != nil {
			return nil, err
		}
		at := client.EventTime(e)
		message := strings.Join(strings.Fields(e.Message), " ")
		if n := occurrences(e); n > 1 {
			message += fmt.Sprintf(" (%d times)", n)
		}
		object := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		for _, k := range cli.Kinds {
			if k.Kind == e.InvolvedObject.Kind {
				object = k.Singular + "/" + e.InvolvedObject.Name
			}
		}
		rows = append(rows, eventRow{u, at, []string{view.Clock(at, now), e.Type, e.Reason, u.GetNamespace(), object, message}})
	}
	slices.SortStableFunc(rows, func(a, b eventRow) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(client.KeyText(a.object), client.KeyText(b.object)))
	})
	return rows, nil
}

func occurrences(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return e.Count
}

// newTable is an empty table with the columns that say something, and a
// function that picks their cells: without the object where one was asked for,
// and without the workspace where all rows are of one.
func (o Options) newTable(s *client.Session, rows []eventRow) (*printer.Table, func([]string) []string) {
	spaces := map[string]bool{}
	for _, r := range rows {
		spaces[r.object.GetNamespace()] = true
	}
	hidden := map[string]bool{
		"OBJECT":    o.Name != "",
		"WORKSPACE": s.Scope != "" || !o.Watch && !o.Output.IsWide() && len(spaces) == 1,
	}
	t := &printer.Table{Out: s.Std.Out}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	return t, t.Show(eventColumns, func(c printer.Column) bool { return !hidden[c.Title] })
}

// followEvents prints what is there and then every new event until ctx ends.
func (o Options) followEvents(ctx context.Context, s *client.Session, xs []client.Subject) error {
	var t *printer.Table
	var show func([]string) []string
	var qs []client.Query
	for _, x := range xs {
		qs = append(qs, x.Query())
	}
	return s.FollowAll(ctx, qs, func(batch []client.Change) error {
		var items []*unstructured.Unstructured
		for _, c := range batch {
			if c.Kind != watch.Deleted {
				items = append(items, c.Object)
			}
		}
		rows, err := eventRows(items, s.Now())
		if err != nil {
			return err
		}
		if o.Output.IsMachineReadable() {
			for _, r := range rows {
				if err := o.Output.Print(s.Std, printer.WithoutManagedFields(r.object), true); err != nil {
					return err
				}
			}
			return nil
		}
		first := t == nil
		if first {
			t, show = o.newTable(s, rows)
		}
		t.Print(eventCells(rows, show), o.Bare || !first)
		return nil
	})
}
