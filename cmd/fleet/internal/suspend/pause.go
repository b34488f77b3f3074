package suspend

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// pauseFields are the fields of an object that is paused by a user for a reason, or
// that goes on: spec.paused, and the annotations that say who, when and why.
func (o Options) pauseFields(p view.Pause) map[string]any {
	notes := map[string]any{fleet.AnnotationPausedBy: nil, fleet.AnnotationPausedAt: nil, fleet.AnnotationPauseReason: nil}
	if o.Suspend {
		notes[fleet.AnnotationPausedBy] = p.By
		notes[fleet.AnnotationPausedAt] = p.Since.Format(time.RFC3339)
		if p.Reason != "" {
			notes[fleet.AnnotationPauseReason] = p.Reason
		}
	}
	return map[string]any{
		"metadata": map[string]any{"annotations": notes},
		"spec":     map[string]any{"paused": o.Suspend},
	}
}
