package summary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// A Member is what the status of a cluster group needs of one of its clusters.
type Member struct {
	Name    string
	Offline bool // or never seen
	Summary fleet.BundleSummary
	Counts  fleet.ResourceCounts
}

// GroupStatus returns the status of a ClusterGroup: the sum over its clusters. A cluster
// that is Offline is not ready in it. A group whose selector cannot be used has no
// clusters, and is not Ready.
func GroupStatus(g *fleet.ClusterGroup, members []Member, now time.Time) fleet.ClusterGroupStatus {
	st := *g.Status.DeepCopy()
	st.Summary, st.ResourceCounts = fleet.BundleSummary{}, fleet.ResourceCounts{}
	st.ClusterCount, st.NonReadyClusterCount, st.NonReadyClusters = len(members), 0, nil
	list := slices.Clone(members)
	slices.SortFunc(list, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		m := &list[i]
		Add(&st.Summary, m.Summary)
		AddCounts(&st.ResourceCounts, m.Counts)
		if m.Offline || m.Summary.Ready != m.Summary.DesiredReady {
			st.NonReadyClusterCount++
			if len(st.NonReadyClusters) < fleet.StatusListLimit {
				st.NonReadyClusters = append(st.NonReadyClusters, m.Name)
			}
		}
	}
	st.Display = fleet.ClusterGroupDisplay{
		ReadyClusters: ratioText(st.ClusterCount-st.NonReadyClusterCount, st.ClusterCount),
		ReadyBundles:  ratioText(st.Summary.Ready, st.Summary.DesiredReady),
		State:         DisplayState(&st.Summary),
	}
	if len(st.NonReadyClusters) > 0 {
		st.Display.ReadyClusters += fmt.Sprintf(" (%s)", strings.Join(st.NonReadyClusters, ","))
	}
	ready := Ready(ByBundle, &st.Summary, g.Generation)
	if ready.Status == corev1.ConditionTrue && st.NonReadyClusterCount > 0 {
		ready = NotReady(fleet.ReasonOffline, fmt.Sprintf("%d of %d clusters do not report: %s",
			st.NonReadyClusterCount, st.ClusterCount, strings.Join(st.NonReadyClusters, ", ")), g.Generation)
	}
	processed := fleet.Condition{Type: fleet.ConditionProcessed, Status: corev1.ConditionTrue, ObservedGeneration: g.Generation}
	if _, errs := target.CompileGroups([]*fleet.ClusterGroup{g}); len(errs) > 0 {
		ready = NotReady(target.ReasonInvalidSelector, errs[0].Error(), g.Generation)
		processed.Status, processed.Reason, processed.Message = corev1.ConditionFalse, ready.Reason, ready.Message
		st.Display.State = string(fleet.NotReady)
	}
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = condition.Set(st.Conditions, processed, now)
	return st
}
