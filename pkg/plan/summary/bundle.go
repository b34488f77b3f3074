package summary

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
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
	// Withdrawing counts deployments that are being withdrawn, and says why.
	Withdrawing Withdrawing
}

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

// BundleStatus is the status of a Bundle. Conditions of others and fields that
// are not summaries are taken over from old.
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
		ReadyClusters: ratio(st.Summary.Ready, st.Summary.DesiredReady),
		State:         DisplayState(&st.Summary),
	}
	ready := Ready(ByCluster, &st.Summary, f.Generation)
	if f.Problem != nil {
		ready = NotReady(f.Problem.Reason, f.Problem.Message, f.Generation)
	}
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = setWithdrawing(st.Conditions, f.Withdrawing, f.Generation, now)
	return st
}

func partitions(f *Bundle) []fleet.PartitionStatus {
	var out []fleet.PartitionStatus
	for i, p := range f.Rollout.Partitions {
		if i >= len(f.Shape.Partitions) {
			break
		}
		var list []*Deployment
		for _, n := range f.Shape.Partitions[i].Members {
			if n < len(f.Deployments) {
				list = append(list, f.Deployments[n])
			}
		}
		out = append(out, fleet.PartitionStatus{
			Name: p.Name, Count: p.Count, MaxUnavailable: p.Limit, Unavailable: p.Unavailable,
			Summary: Count(ByCluster, list),
		})
	}
	return out
}
