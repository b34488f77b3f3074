// Package health decides whether one live object is ready, and if not, why.
//
// It combines two results. One is what Rancher shows of the object; it is an argument,
// since its library is not for pure packages. The other is kstatus, which also detects
// that a controller has not yet seen the newest generation. An object is ready if
// neither finds a problem.
package health

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Assess judges a live object. shown is what Rancher's rules say of the same object. Where it
// is not ready, the status says why: with Rancher's name of the state where there is one,
// and with the texts of both.
func Assess(live *unstructured.Unstructured, shown fleet.Summary) (fleet.NonReadyStatus, bool) {
	summary := combine(shown, byStatus(live))
	if !summary.Error && !summary.Transitioning {
		return fleet.NonReadyStatus{}, true
	}
	return fleet.NonReadyStatus{
		UID:        live.GetUID(),
		Kind:       live.GetKind(),
		APIVersion: live.GetAPIVersion(),
		Namespace:  live.GetNamespace(),
		Name:       live.GetName(),
		Summary:    summary,
	}, false
}

// combine combines the results of two sets of rules.
func combine(shown, other fleet.Summary) fleet.Summary {
	switch {
	case !other.Error && !other.Transitioning:
		return shown
	case !shown.Error && !shown.Transitioning:
		return other
	}
	shown.Error, shown.Transitioning = shown.Error || other.Error, shown.Transitioning || other.Transitioning
	for _, text := range other.Message {
		if !strings.Contains(strings.Join(shown.Message, "\n"), text) {
			shown.Message = append(slices.Clip(shown.Message), text)
		}
	}
	return shown
}

// byStatus returns the summary of kstatus; zero if it has no objection.
func byStatus(live *unstructured.Unstructured) fleet.Summary {
	result, err := kstatus.Compute(live)
	if err != nil {
		return fleet.Summary{}
	}
	out := fleet.Summary{Message: []string{result.Message}}
	switch result.Status {
	case kstatus.InProgressStatus:
		out.State, out.Transitioning = "in-progress", true
	case kstatus.FailedStatus:
		out.State, out.Error = "failed", true
	case kstatus.TerminatingStatus:
		out.State, out.Transitioning = "removing", true
	default:
		return fleet.Summary{}
	}
	return out
}

// WithoutConditions returns a live object without the conditions that do not count: those that have
// all keys and values of one of the ignored sets. The object itself is not changed; where
// nothing is ignored it is returned as it is.
func WithoutConditions(live *unstructured.Unstructured, ignored []map[string]string) *unstructured.Unstructured {
	conditions, found, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	if err != nil || !found || len(ignored) == 0 {
		return live
	}
	kept := make([]any, 0, len(conditions))
	for _, c := range conditions {
		if !matchesAny(c, ignored) {
			kept = append(kept, c)
		}
	}
	if len(kept) == len(conditions) {
		return live
	}
	out := live.DeepCopy()
	if err := unstructured.SetNestedSlice(out.Object, kept, "status", "conditions"); err != nil {
		return live
	}
	return out
}

func matchesAny(condition any, ignored []map[string]string) bool {
	c, ok := condition.(map[string]any)
	if !ok {
		return false
	}
	for _, set := range ignored {
		if len(set) > 0 && matchesCondition(c, set) {
			return true
		}
	}
	return false
}

func matchesCondition(condition map[string]any, set map[string]string) bool {
	for k, v := range set {
		if s, ok := condition[k].(string); !ok || s != v {
			return false
		}
	}
	return true
}
