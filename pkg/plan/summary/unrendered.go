package summary

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// setUnrendered keeps condition ValuesRendered while templates of values are not rendered
// for clusters, as text says, and removes it afterwards.
func setUnrendered(list []fleet.Condition, text string, generation int64, now time.Time) []fleet.Condition {
	if text == "" {
		return condition.Remove(list, fleet.ConditionValuesRendered)
	}
	return condition.Set(list, fleet.Condition{
		Type: fleet.ConditionValuesRendered, Status: corev1.ConditionFalse, ObservedGeneration: generation,
		Reason: fleet.ReasonNoLabels, Message: condition.Message(text),
	}, now)
}

// unrenderedOf joins the messages of a GitRepo's Bundles about templates that are not
// rendered.
func unrenderedOf(bundles []RepoBundle) string {
	texts := map[string]string{}
	for _, b := range bundles {
		if text := b.Unrendered.String(); text != "" {
			texts[b.Name] = text
		}
	}
	return OfBundles(texts)
}
