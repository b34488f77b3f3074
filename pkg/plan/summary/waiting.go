package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

const (
	// maxWaits is how many of the things that are waited for stand in one
	// message.
	maxWaits = 3
	// maxReasons is how many reasons are distinguished.
	maxReasons = 100
)

// setWaiting keeps condition Waiting while versions are held back, missing
// deployments are not made yet, or clusters are deferred, and removes it
// afterwards. The message says for what and for whom, and how many clusters wait;
// since when is its transition time.
func setWaiting(list []fleet.Condition, f *Bundle, now time.Time) []fleet.Condition {
	var texts []string
	if s := f.Rollout.Stop; s != nil {
		texts = append(texts, s.String())
	}
	if f.Rollout.Outside.Count > 0 {
		texts = append(texts, rollout.OutsideText(f.Rollout.Outside))
	}
	switch n := f.Rollout.Deferred; {
	case n == 1:
		texts = append(texts, "1 cluster is deferred: it is offline, silent or outside of its change windows")
	case n > 1:
		texts = append(texts, fmt.Sprintf("%d clusters are deferred: they are offline, silent or outside of their change windows", n))
	}
	texts = append(texts, waitsFor(f.Deployments)...)
	if len(texts) == 0 {
		return condition.Remove(list, fleet.ConditionWaiting)
	}
	return condition.Set(list, fleet.Condition{
		Type: fleet.ConditionWaiting, Status: corev1.ConditionTrue, ObservedGeneration: f.Generation,
		Reason: fleet.ReasonDeferred, Message: condition.Message(strings.Join(texts, "; ")),
	}, now)
}

// waitsFor says what deployments wait for, what most wait for first.
func waitsFor(deployments []*Deployment) []string {
	type wait struct {
		why   string
		first string
		n     int
	}
	var waits []wait
	index := map[string]int{}
	for _, d := range deployments {
		if d.State != fleet.OutOfSync && d.State != fleet.Pending || d.Message == "" || d.Message == rollout.ReasonOutside {
			continue
		}
		i, known := index[d.Message]
		if !known && len(waits) == maxReasons {
			continue
		}
		if !known {
			i = len(waits)
			index[d.Message] = i
			waits = append(waits, wait{why: d.Message, first: d.Cluster})
		}
		waits[i].n++
		waits[i].first = min(waits[i].first, d.Cluster)
	}
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Or(b.n-a.n, cmp.Compare(a.why, b.why)) })
	var texts []string
	for _, w := range waits[:min(maxWaits, len(waits))] {
		if w.n == 1 {
			texts = append(texts, fmt.Sprintf("%s: %s", w.first, w.why))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s and %d more: %s", w.first, w.n-1, w.why))
	}
	if len(waits) > maxWaits {
		texts = append(texts, fmt.Sprintf("and %d other reasons", len(waits)-maxWaits))
	}
	return texts
}
