// Package report makes the status of a BundleDeployment from what an agent found on its
// cluster. The same findings give the same status, so that the agent writes nothing
// when nothing has changed.
package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// An Object is one object of a release as it was found.
type Object struct {
	Kind       string
	APIVersion string
	Namespace  string
	Name       string
	CreatedAt  metav1.Time
	NonReady   *fleet.NonReadyStatus // nil: ready, or missing
	Modified   *fleet.ModifiedStatus // nil: as it was deployed
}

// A Failure is why the last attempt to deploy did not succeed.
type Failure struct {
	Reason  string
	Message string
	// Permanent: it is not tried again until something else is wanted.
	Permanent bool
	// Waiting: nothing failed yet, something that is expected is not there.
	Waiting bool
}

// Found is all that an agent knows about a deployment.
type Found struct {
	// ID is the deployment id of what runs; empty if nothing does.
	ID string
	// Release is "<namespace>/<name>:<revision>" of what runs.
	Release string
	// Objects are those of the release.
	Objects []Object
	// Awaited are objects that the release takes over as soon as another one is
	// withdrawn.
	Awaited []Object
	// Blind says why the objects could not be looked at; empty: they could.
	Blind string
	// Failure is that of the last attempt, nil if there was none.
	Failure *Failure
	// Correction says why drift could not be corrected; empty: nothing failed.
	Correction string
	// Contested says which field managers keep reverting what is corrected; empty: none.
	Contested string
	// DownstreamGeneration is that of the copies of downstreamResources that the
	// release was made with.
	DownstreamGeneration int
}

// Status returns the whole status of a deployment. Only the times of conditions are taken
// over from before.
func Status(bd *fleet.BundleDeployment, f Found, now time.Time) fleet.BundleDeploymentStatus {
	w := &writer{bd: bd, now: now, list: bd.Status.Conditions}
	out := fleet.BundleDeploymentStatus{
		AppliedDeploymentID: f.ID, Release: f.Release, NonModified: true, DownstreamResourcesGeneration: f.DownstreamGeneration,
	}
	w.objects(&out, f)
	out.Resources = awaited(out.Resources, f.Awaited)
	out.Ready = f.ID != "" && f.Blind == "" && len(out.NonReadyStatus) == 0
	if f.ID == bd.Spec.DeploymentID {
		generation := bd.Spec.Options.ForceSyncGeneration
		out.SyncGeneration = &generation
	} else {
		out.SyncGeneration = bd.Status.SyncGeneration
	}
	w.setAttempt(&out, f)
	w.ready(&out, f)
	w.monitored(f)
	w.setContested(f)
	w.list = condition.Remove(w.list, fleet.ConditionWithdrawn)
	out.Conditions = w.list
	out.Display = summary.Display(&fleet.BundleDeployment{Spec: bd.Spec, Status: out})
	return out
}

// Withdrawn returns the answer to an order to uninstall: nothing is left.
func Withdrawn(bd *fleet.BundleDeployment, order, message string, now time.Time) fleet.BundleDeploymentStatus {
	w := &writer{bd: bd, now: now}
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn); c != nil {
		w.list = []fleet.Condition{*c}
	}
	w.set(fleet.ConditionWithdrawn, corev1.ConditionTrue, fleet.ReasonUninstalled, order)
	w.set(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonUninstalled, message)
	out := fleet.BundleDeploymentStatus{NonModified: true, Conditions: w.list}
	out.Display = summary.Display(&fleet.BundleDeployment{Spec: bd.Spec, Status: out})
	return out
}

// Answered reports whether an order was answered already.
func Answered(bd *fleet.BundleDeployment, order string) bool {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn)
	return c != nil && c.Status == corev1.ConditionTrue && c.Message == order && bd.Status.AppliedDeploymentID == ""
}

// Equivalent reports whether two statuses mean the same.
func Equivalent(a, b fleet.BundleDeploymentStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// IsTransient reports whether a status will change by itself: the objects are
// there, and some of them will be ready soon.
func IsTransient(s fleet.BundleDeploymentStatus) bool {
	if s.Ready || len(s.ModifiedStatus) > 0 || condition.IsFalse(s.Conditions, fleet.ConditionDeployed) ||
		condition.IsFalse(s.Conditions, fleet.ConditionInstalled) || len(s.NonReadyStatus) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.NonReadyStatus, func(n fleet.NonReadyStatus) bool { return n.Summary.Error })
}

type writer struct {
	bd   *fleet.BundleDeployment
	now  time.Time
	list []fleet.Condition
}

func (w *writer) set(kind string, status corev1.ConditionStatus, reason, message string) {
	w.list = condition.Set(w.list, fleet.Condition{
		Type: kind, Status: status, Reason: reason, Message: condition.Message(message), ObservedGeneration: w.bd.Generation,
	}, w.now)
}

// objects fills the lists and the counts.
func (w *writer) objects(out *fleet.BundleDeploymentStatus, f Found) {
	objs := slices.Clone(f.Objects)
	slices.SortFunc(objs, func(a, b Object) int { return strings.Compare(a.key(), b.key()) })
	c := &out.ResourceCounts
	for _, o := range objs {
		out.Resources = append(out.Resources, o.resource())
		c.DesiredReady++
		switch {
		case o.Modified != nil && o.Modified.Create:
			c.Missing++
		case o.Modified != nil && o.Modified.Delete:
			c.Orphaned++
		case o.Modified != nil:
			c.Modified++
		case o.NonReady != nil:
			c.NotReady++
		default:
			c.Ready++
		}
		if o.Modified != nil {
			out.NonModified = false
			out.IncompleteState = out.IncompleteState || len(out.ModifiedStatus) == fleet.StatusListLimit
			out.ModifiedStatus = appendLimited(out.ModifiedStatus, *o.Modified)
		}
		if o.NonReady != nil {
			out.IncompleteState = out.IncompleteState || len(out.NonReadyStatus) == fleet.StatusListLimit
			out.NonReadyStatus = appendLimited(out.NonReadyStatus, *o.NonReady)
		}
	}
}

// awaited adds to the list of objects those that are not the release's yet.
func awaited(list []fleet.BundleDeploymentResource, objs []Object) []fleet.BundleDeploymentResource {
	for _, o := range objs {
		r := o.resource()
		same := func(other fleet.BundleDeploymentResource) bool {
			other.CreatedAt = r.CreatedAt
			return other == r
		}
		if !slices.ContainsFunc(list, same) {
			list = append(list, r)
		}
	}
	return list
}

func (o Object) resource() fleet.BundleDeploymentResource {
	return fleet.BundleDeploymentResource{
		Kind: o.Kind, APIVersion: o.APIVersion, Namespace: o.Namespace, Name: o.Name, CreatedAt: o.CreatedAt,
	}
}

func (o Object) key() string {
	return o.Kind + "/" + o.APIVersion + "/" + o.Namespace + "/" + o.Name
}

func appendLimited[T any](list []T, item T) []T {
	if len(list) == fleet.StatusListLimit {
		return list
	}
	return append(list, item)
}

// setAttempt sets Deployed, Installed and Stalled by the outcome of the last attempt. A
// failure that is recorded as applied takes the place of the release that runs; the objects
// of that release stay reported.
func (w *writer) setAttempt(out *fleet.BundleDeploymentStatus, f Found) {
	if f.Failure == nil || !f.Failure.Permanent {
		w.list = condition.Remove(w.list, fleet.ConditionStalled)
	}
	if f.Failure == nil {
		if f.ID == "" {
			w.set(fleet.ConditionDeployed, corev1.ConditionUnknown, fleet.ReasonProgressing, "")
			return
		}
		w.set(fleet.ConditionDeployed, corev1.ConditionTrue, "", "")
		w.set(fleet.ConditionInstalled, corev1.ConditionTrue, "", "")
		return
	}
	why := f.Failure
	switch {
	case why.Permanent && release.Recorded(why.Reason):
		out.AppliedDeploymentID, out.Release = w.bd.Spec.DeploymentID, ""
		out.Ready = false
		w.set(fleet.ConditionDeployed, corev1.ConditionFalse, why.Reason, summary.NotInstalled+why.Message)
		w.set(fleet.ConditionInstalled, corev1.ConditionFalse, why.Reason, summary.NotInstalled+why.Message)
	case why.Waiting:
		w.set(fleet.ConditionDeployed, corev1.ConditionUnknown, why.Reason, why.Message)
	default:
		out.Ready = out.Ready && f.ID != w.bd.Spec.DeploymentID // apart from this, it is as it should be
		w.set(fleet.ConditionDeployed, corev1.ConditionFalse, why.Reason, why.Message)
	}
	if why.Permanent {
		w.set(fleet.ConditionStalled, corev1.ConditionTrue, why.Reason, w.stalled(f))
	}
}

// stalled is the message of a failure that stays, for an upgrade with the release that was
// there before. Deployed and Installed have the words of the API, which are those of a
// failed installation too.
func (w *writer) stalled(f Found) string {
	why := f.Failure
	if f.ID == "" || f.ID == w.bd.Spec.DeploymentID || !release.Recorded(why.Reason) {
		return why.Message
	}
	return summary.UpgradeText(f.Release, why.Reason != release.ReasonTimeout, why.Message) // after a timeout the new objects are there
}

// ready sets Ready with the first thing that is wrong. What clients of rancher/fleet show as
// an error has its reason; a failure has its own word in Deployed, too.
func (w *writer) ready(out *fleet.BundleDeploymentStatus, f Found) {
	status, reason, message := corev1.ConditionFalse, "", ""
	switch {
	case f.Failure != nil && f.Failure.Permanent && release.Recorded(f.Failure.Reason):
		reason, message = fleet.ReasonError, "not ready: "+f.Failure.Message
	case f.Failure != nil:
		reason, message = f.Failure.Reason, f.Failure.Message
	case f.Correction != "":
		reason, message = fleet.ReasonError, f.Correction
	case f.Blind != "":
		reason, message = "NotMonitored", f.Blind
	case len(out.NonReadyStatus) > 0:
		reason, message = fleet.ReasonError, out.NonReadyStatus[0].String()
	case len(out.ModifiedStatus) > 0:
		reason, message = fleet.ReasonError, out.ModifiedStatus[0].String()
	case !out.Ready:
		reason, message = fleet.ReasonProgressing, "not ready"
	default:
		status = corev1.ConditionTrue
	}
	w.set(fleet.ConditionReady, status, reason, message)
}

func (w *writer) setContested(f Found) {
	if f.Contested == "" {
		w.list = condition.Remove(w.list, fleet.ConditionContested)
		return
	}
	w.set(fleet.ConditionContested, corev1.ConditionTrue, fleet.ReasonChangedBack, f.Contested)
}

func (w *writer) monitored(f Found) {
	switch {
	case f.Blind != "":
		w.set(fleet.ConditionMonitored, corev1.ConditionFalse, fleet.ReasonError, f.Blind)
	case f.ID != "":
		w.set(fleet.ConditionMonitored, corev1.ConditionTrue, "", "")
	}
}
