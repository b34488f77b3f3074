package rollout

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// SilentAfter is how long a cluster may leave a promotion without any sign of life before
// it is regarded as silent.
const SilentAfter = 2 * time.Minute

// A Target is one deployment of a Bundle, wanted or there.
type Target struct {
	Name    string // as people know the cluster
	Desired string // deployment id that it should have; empty: could not be worked out
	Exists  bool   // there is a deployment object
	Staged  string // deployment ids of that object
	Current string
	Applied string // deployment id that the agent reports
	Ready   bool   // the agent reports its objects ready
	Paused  bool   // cluster or Bundle is paused
	Offline bool   // the agent does not report at present
	Silent  bool   // the cluster has let SilentAfter pass after a promotion
	Closed  string // why the cluster may not be changed now: it is outside of its change windows; empty: it may
	Held    string // why an existing deployment keeps its version whatever room there is; empty: it need not
}

// TargetOf returns a deployment, which may be nil, as the rollout sees it. The caller adds
// what it should be, and whether anything holds it back.
func TargetOf(name string, bd *fleet.BundleDeployment) Target {
	if bd == nil {
		return Target{Name: name}
	}
	return Target{
		Name: name, Exists: true,
		Staged: bd.Spec.StagedDeploymentID, Current: bd.Spec.DeploymentID,
		Applied: bd.Status.AppliedDeploymentID, Ready: bd.Status.Ready,
	}
}

// Unanswered reports whether the cluster of a deployment, which may be nil, has
// not yet said what became of its current version. Nothing is expected where
// the agent has nothing to do.
func Unanswered(bd *fleet.BundleDeployment) bool {
	return bd != nil && bd.Spec.DeploymentID != "" && bd.Spec.DeploymentID != bd.Status.AppliedDeploymentID &&
		!bd.Spec.Paused && bd.DeletionTimestamp == nil && bd.Annotations[fleet.AnnotationWithdrawn] == ""
}

// Deferred reports whether nothing waits for the cluster: nothing is known of it at present,
// or it is outside of its change windows.
func (t *Target) Deferred() bool { return t.Offline || t.Silent || t.Closed != "" }

// deferReason says why a target is deferred, and when it takes the version.
func (t *Target) deferReason() (why, when string) {
	switch {
	case t.Offline:
		return "offline: ", "when it is back"
	case t.Silent:
		return "silent: ", "when it is back"
	}
	return t.Closed + "; ", "when one opens"
}

// down reports whether the last report shows the deployment down, or not yet what
// it should be by its own current version. An absent one is not down.
func (t *Target) down() bool { return t.Exists && (t.Applied != t.Current || !t.Ready) }

// Unavailable reports whether the deployment is regarded as down. A deferred one is not:
// its state is unknown, and nothing should wait for it. Neither is one whose version could
// not be computed, since that concerns its cluster alone.
func (t *Target) Unavailable() bool { return !t.Deferred() && t.Desired != "" && t.down() }

// mayBeUp reports whether the deployment was up by its last report, and has been promoted
// since with an unknown outcome.
func (t *Target) mayBeUp() bool {
	return t.Deferred() && t.Exists && t.Ready && t.Applied != t.Current
}

// holdsPartition reports whether the target keeps its partition from being there.
func (t *Target) holdsPartition() bool {
	return !t.Deferred() && t.Desired != "" && (!t.Ready || !t.IsSettled())
}

// IsSettled reports whether the deployment has fully become what it should be.
func (t *Target) IsSettled() bool {
	return t.Exists && t.Desired != "" && t.Staged == t.Desired && t.Current == t.Desired && t.Applied == t.Desired
}
