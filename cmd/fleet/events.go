package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var eventFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

const eventsText = `Shows what happened to objects of Fleet, oldest first: all of them, or one.

-o json prints the Kubernetes events as a List.`

type eventsOptions struct {
	kind   kind
	name   string // empty: all objects
	output printer.Output
	watch  bool
	bare   bool
}

func newEventsCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use: "events [KIND/NAME]", Short: "Show what happened", Long: eventsText,
		ValidArgsFunction: g.completeObjects(std, eventsGrammar()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Check(eventFormats...); err != nil {
				return err
			}
			if len(args) > 0 {
				ref, err := eventsGrammar().one(args)
				if err != nil {
					return err
				}
				o.kind, o.name = ref.kind, ref.name
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runEvents(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, eventFormats...)
	fs.BoolVarP(&o.watch, "watch", "w", false, "then show every new one")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	return cmd
}

// eventsGrammar is what events may be about: all kinds.
func eventsGrammar() grammar { return grammarOf(kindNames()...) }

// A subject says which events belong to an answer: those about one object, or
// about all of Fleet's, in one namespace or in all.
type subject struct {
	namespace string
	kind      string
	name      string
}

func (x subject) query() query {
	set := fields.Set{"involvedObject.apiVersion": fleet.GroupVersion.String()}
	if x.kind != "" {
		set["involvedObject.kind"] = x.kind
	}
	if x.name != "" {
		set["involvedObject.name"] = x.name
	}
	return query{resource: events, namespace: x.namespace, fields: set.String()}
}

// subjects are what is asked for.
func (o eventsOptions) subjects(ctx context.Context, s *session) ([]subject, error) {
	if o.name == "" {
		return s.everywhere(ctx)
	}
	qs, err := s.wide(ctx, o.kind, "")
	if err != nil {
		return nil, err
	}
	var all []view.Key
	var out []subject
	for _, q := range qs {
		items, err := s.all(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, u := range items {
			all = append(all, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
			if u.GetName() == o.name {
				out = append(out, subject{u.GetNamespace(), o.kind.Kind, o.name})
			}
		}
	}
	if len(out) == 0 {
		return nil, s.unknown(ctx, o.kind, o.name, all)
	}
	return out, nil
}

// everywhere is Fleet's objects in all namespaces that the user may look at,
// within -n.
func (s *session) everywhere(ctx context.Context) ([]subject, error) {
	qs, err := s.wide(ctx, mustKind("clusters"), "")
	if err != nil {
		return nil, err
	}
	var out []subject
	for _, q := range qs {
		out = append(out, subject{namespace: q.namespace})
	}
	return out, nil
}

// runEvents prints events, and with -w new ones until ctx ends.
func runEvents(ctx context.Context, o eventsOptions, s *session) error {
	xs, err := o.subjects(ctx, s)
	if err != nil {
		return err
	}
	if o.watch {
		return o.follow(ctx, s, xs)
	}
	var items []*unstructured.Unstructured
	for _, x := range xs {
		found, err := s.all(ctx, x.query())
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	rows, err := eventRows(items, s.now())
	if err != nil {
		return err
	}
	if o.output.Machine() {
		objects := make([]*unstructured.Unstructured, len(rows))
		for i, r := range rows {
			objects[i] = r.object
		}
		return o.output.Print(s.std, listDocument(objects), false)
	}
	if len(rows) == 0 {
		s.std.Note("no events%s", o.about(s.scope))
		s.noteNoManager(ctx)
		return nil
	}
	t, show := o.newTable(s, rows)
	t.Print(eventCells(rows, show), o.bare)
	return nil
}

func eventCells(rows []eventRow, show func([]string) []string) [][]string {
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = show(r.cells)
	}
	return out
}

func (o eventsOptions) about(scope string) string {
	text := ""
	if o.name != "" {
		text = " about " + o.kind.singular + " " + o.name
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
		e, err := as[corev1.Event](u)
		if err != nil {
			return nil, err
		}
		at := eventTime(e)
		message := strings.Join(strings.Fields(e.Message), " ")
		if n := occurrences(e); n > 1 {
			message += fmt.Sprintf(" (%d times)", n)
		}
		object := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		for _, k := range kinds {
			if k.Kind == e.InvolvedObject.Kind {
				object = k.singular + "/" + e.InvolvedObject.Name
			}
		}
		rows = append(rows, eventRow{u, at, []string{view.Clock(at, now), e.Type, e.Reason, u.GetNamespace(), object, message}})
	}
	slices.SortStableFunc(rows, func(a, b eventRow) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(keyText(a.object), keyText(b.object)))
	})
	return rows, nil
}

// eventTime is when an event happened last.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
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
func (o eventsOptions) newTable(s *session, rows []eventRow) (*printer.Table, func([]string) []string) {
	spaces := map[string]bool{}
	for _, r := range rows {
		spaces[r.object.GetNamespace()] = true
	}
	hidden := map[string]bool{
		"OBJECT":    o.name != "",
		"WORKSPACE": s.scope != "" || !o.watch && !o.output.Wide() && len(spaces) == 1,
	}
	t := &printer.Table{Out: s.std.Out}
	if !o.output.Wide() {
		t.Width = s.std.Width()
	}
	return t, t.Show(eventColumns, func(c printer.Column) bool { return !hidden[c.Title] })
}

// follow prints what is there and then every new event until ctx ends.
func (o eventsOptions) follow(ctx context.Context, s *session, xs []subject) error {
	var t *printer.Table
	var show func([]string) []string
	var qs []query
	for _, x := range xs {
		qs = append(qs, x.query())
	}
	return s.followAll(ctx, qs, func(batch []change) error {
		var items []*unstructured.Unstructured
		for _, c := range batch {
			if c.kind != watch.Deleted {
				items = append(items, c.object)
			}
		}
		rows, err := eventRows(items, s.now())
		if err != nil {
			return err
		}
		if o.output.Machine() {
			for _, r := range rows {
				if err := o.output.Print(s.std, plain(r.object), true); err != nil {
					return err
				}
			}
			return nil
		}
		first := t == nil
		if first {
			t, show = o.newTable(s, rows)
		}
		t.Print(eventCells(rows, show), o.bare || !first)
		return nil
	})
}
