package summary

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// Bundle are the facts from which a Bundle's status is made.
type Bundle struct {
	// Generation is the generation of the Bundle that was last planned.
	Generation int64
	// Deployments are all that the Bundle should have, by name of the cluster.
	Deployments []*Deployment
	// Rollout is the last round, its steps in the order of Deployments.
	Rollout rollout.Result
	Shape   rollout.Shape
	// NewlyCreated is how many deployments exist that were never applied.
	NewlyCreated int
	// ResourcesDigest is the digest of the resources.
	ResourcesDigest string
	// Problem, where not nil, is why the Bundle cannot be Ready whatever its
	// deployments say.
	Problem *Problem
	// Withdrawing holds how many deployments are being withdrawn, and why.
	Withdrawing Withdrawing
	// Unrendered are the clusters for which templates of values are not rendered.
	Unrendered values.Unrendered
}

const (
	// maxPartitions is how many partitions are listed.
	maxPartitions = 100
	// maxPartitionEntries is how many deployments that are not ready the lists of
	// all partitions name.
	maxPartitionEntries = 40
)

// A Problem is a reason not to be Ready: of the whole object, not of one
// deployment.
type Problem struct {
	Reason  string
	Message string
}

// Withdrawing is how many deployments wait to be uninstalled.
type Withdrawing struct {
	Count int
	Why   string
}

// BundleStatus returns the status of a Bundle. Conditions of others and fields that are not
// summaries are taken over from old.
func BundleStatus(old *fleet.BundleStatus, f *Bundle, now time.Time) fleet.BundleStatus {
	st := *old.DeepCopy()
	st.Summary = Count(ByCluster, f.Deployments)
	st.ObservedGeneration = f.Generation
	st.NewlyCreated = f.NewlyCreated
	st.Unavailable = f.Rollout.Unavailable
	st.UnavailablePartitions = f.Rollout.UnavailablePartitions
	st.MaxUnavailable = f.Shape.MaxUnavailable
	st.MaxUnavailablePartitions = f.Shape.MaxUnavailablePartitions
	st.PartitionStatus = partitions(f)
	st.ResourceKey = nil
	st.ResourcesSHA256Sum = f.ResourcesDigest
	st.Display = fleet.BundleDisplay{
		ReadyClusters: ratioText(st.Summary.Ready, st.Summary.DesiredReady),
		State:         DisplayState(&st.Summary),
	}
	ready := Ready(ByCluster, &st.Summary, f.Generation)
	if f.Problem != nil {
		ready = NotReady(f.Problem.Reason, f.Problem.Message, f.Generation)
	}
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = setWithdrawing(st.Conditions, f.Withdrawing, f.Generation, now)
	st.Conditions = setWaiting(st.Conditions, f, now)
	st.Conditions = setUnrendered(st.Conditions, f.Unrendered.String(), f.Generation, now)
	return st
}

// partitions is how far each partition is. Of many those are listed that are not
// there yet, at most 100 in all; and the more there are, the fewer of their
// deployments that are not ready stand with each, and the fewer objects with those.
func partitions(f *Bundle) []fleet.PartitionStatus {
	n := min(len(f.Rollout.Partitions), len(f.Shape.Partitions))
	each := min(fleet.StatusListLimit, maxPartitionEntries/max(n, 1))
	out := make([]fleet.PartitionStatus, 0, n)
	for i, p := range f.Rollout.Partitions[:n] {
		list := make([]*Deployment, 0, len(f.Shape.Partitions[i].Members))
		for _, at := range f.Shape.Partitions[i].Members {
			if at < len(f.Deployments) {
				list = append(list, f.Deployments[at])
			}
		}
		out = append(out, fleet.PartitionStatus{
			Name: p.Name, Count: p.Count, MaxUnavailable: p.Limit, Unavailable: p.Unavailable, Summary: shortSummary(list, n, each),
		})
	}
	if len(out) == 0 {
		return nil
	}
	return listed(out)
}

// shortSummary is a summary with so many entries in its list, each with as many objects as
// its share of partitionBytes holds.
func shortSummary(list []*Deployment, partitions, entries int) fleet.BundleSummary {
	s, c := countStates(list, nil)
	first := c.list()
	for _, d := range first[:min(entries, len(first))] {
		s.NonReadyResources = append(s.NonReadyResources, entryWithin(partitionBytes/(partitions*entries), Name(ByCluster, d), d))
	}
	return s
}

// listed are at most 100 partitions: the first that are not all Ready, and then
// the first of all, in order.
func listed(list []fleet.PartitionStatus) []fleet.PartitionStatus {
	room := maxPartitions - len(list)
	for i := range list {
		if room < 0 && list[i].Summary.Ready == list[i].Summary.DesiredReady {
			room++
			list[i].Name, list[i].Count = "", -1 // left out
		}
	}
	list = slices.DeleteFunc(list, func(p fleet.PartitionStatus) bool { return p.Count < 0 })
	return list[:min(maxPartitions, len(list))]
}
