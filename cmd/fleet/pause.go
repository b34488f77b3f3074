package main

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// pauseFields are the fields of an object that is paused by a user for a reason, or
// that goes on: spec.paused, and the annotations that say who, when and why.
func (o brakeOptions) pauseFields(p view.Pause) map[string]any {
	notes := map[string]any{fleet.AnnotationPausedBy: nil, fleet.AnnotationPausedAt: nil, fleet.AnnotationPauseReason: nil}
	if o.suspend {
		notes[fleet.AnnotationPausedBy] = p.By
		notes[fleet.AnnotationPausedAt] = p.Since.Format(time.RFC3339)
		if p.Reason != "" {
			notes[fleet.AnnotationPauseReason] = p.Reason
		}
	}
	return map[string]any{
		"metadata": map[string]any{"annotations": notes},
		"spec":     map[string]any{"paused": o.suspend},
	}
}

// pauseOf is who has paused an object; nil where it is not paused.
func pauseOf(u *unstructured.Unstructured) *view.Pause {
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); !paused {
		return nil
	}
	p := view.PauseOf(u)
	return &p
}

// maxPaused is how many objects that are paused the screen has, unless -o wide asks
// for all.
const maxPaused = 20

// paused prints what users hold back: since when, who and why.
func (o statusOptions) paused(s *session, rows []view.PausedObject, names namesakes) {
	more := 0
	if !o.output.Wide() && len(rows) > maxPaused {
		more = len(rows) - maxPaused
		rows = rows[:maxPaused]
	}
	t := printer.Table{Out: s.std.Out, Columns: []printer.Column{{Title: "PAUSED"}, {Title: "SINCE"}, {Title: "BY"}, {Title: "REASON"}}}
	if !o.output.Wide() {
		t.Width = s.std.Width()
	}
	var cells [][]string
	for _, p := range rows {
		since := ""
		if p.Since != nil {
			since = view.Ago(*p.Since, s.now())
		}
		cells = append(cells, []string{"  " + names.text(p.Label(), p.Name), dash(since), dash(p.By), p.Why()})
	}
	t.Print(cells, false)
	if more > 0 {
		printer.Say(s.std.Out, "  and %d more: fleet status -o wide\n", more)
	}
}
