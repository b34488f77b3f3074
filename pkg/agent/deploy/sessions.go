package deploy

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// slowAfter is when a deployment that is still under way is worth a check-in: the
// manager waits two minutes for a heartbeat, and check-ins may be further apart.
const slowAfter = time.Minute

// A Session is the connection to the manager, once the agent has one.
type Session struct {
	Namespace   string // of the BundleDeployments
	Deployments *kube.Cache[*fleet.BundleDeployment]
	Statuses    *kube.Store[*fleet.BundleDeployment]
	Contents    *kube.Store[*fleet.Content]
	Secrets     *kube.Store[*corev1.Secret]
	ConfigMaps  *kube.Store[*corev1.ConfigMap]
	// CheckIn, where not nil, sends a check-in to the manager at once.
	CheckIn func()
	// Away, where not nil, reports whether the manager is known to be away. The creator
	// of the session enqueues every deployment when it is back.
	Away func() bool
}

// timeout starts the time limit of a deployment; the caller calls end when the
// deployment is done. A deployment that takes longer than slowAfter causes one
// check-in, so that the manager does not count a busy agent as silent.
func (s *Session) timeout() (end func()) {
	if s == nil || s.CheckIn == nil {
		return func() {}
	}
	t := time.AfterFunc(slowAfter, s.CheckIn)
	return func() { t.Stop() }
}

// link is the present session with the manager, and what is known of the manager.
type link struct {
	session atomic.Pointer[Session]           // nil: the agent never reached its manager
	mark    atomic.Pointer[registration.Mark] // of the manager that the agent belongs to
	// suspended: another agent with the same identity is the older one.
	suspended atomic.Bool
}

func newLink() *link {
	l := &link{}
	l.mark.Store(&registration.Mark{})
	return l
}

// Sessions knows the present session with the manager, enqueues the deployments that
// change in it, and reports which are unfinished.
type Sessions struct {
	link         *link
	guard        *restoreguard.Guard
	records      records
	dependencies *dependencies
	deletions    *deletions
	status       *statuswriter.Writer
	enqueue      func(name string)
	now          func() time.Time
}

// Attach gives the controller a new connection to the manager. Its cache enqueues
// deployments.
func (ss *Sessions) Attach(s *Session) {
	s.Deployments.OnChange(func(old, changed *fleet.BundleDeployment) { ss.onChange(s, old, changed) })
	s.Deployments.OnWatchedDeletion(func(last *fleet.BundleDeployment) { ss.deletions.onDeleted(s, last) })
	ss.link.session.Store(s)
}

// SetManager sets the mark of the manager, before it has answered.
func (ss *Sessions) SetManager(m registration.Mark) { ss.link.mark.Store(&m) }

// Answered sets the mark of a manager that has just answered a check-in.
func (ss *Sessions) Answered(m registration.Mark) {
	ss.SetManager(m)
	ss.guard.Answered()
}

// Suspend stops all changes (on), or allows them again, while an older agent uses the
// same identity.
func (ss *Sessions) Suspend(on bool) {
	if ss.link.suspended.Swap(on) != on && !on {
		ss.EnqueueAll()
	}
}

// EnqueueAll enqueues every deployment that the manager has or the agent has accepted.
func (ss *Sessions) EnqueueAll() {
	for _, rec := range ss.records.All() {
		ss.enqueue(rec.Key.Name)
	}
	if s := ss.link.session.Load(); s != nil {
		for _, bd := range s.Deployments.List("") {
			ss.enqueue(bd.Name)
		}
	}
}

// onChange enqueues a changed BundleDeployment. If an order to withdraw it appears or
// disappears, it also enqueues the others of its repository.
func (ss *Sessions) onChange(s *Session, old, changed *fleet.BundleDeployment) {
	ss.dependencies.onReport(old, changed)
	if changed == nil {
		ss.enqueue(old.Name)
		return
	}
	ss.guard.Observe(*ss.link.mark.Load(), old, changed)
	if old != nil && old.UID == changed.UID && old.Generation == changed.Generation &&
		maps.Equal(old.Annotations, changed.Annotations) && maps.Equal(old.Labels, changed.Labels) {
		return // the agent's own report
	}
	ss.enqueue(changed.Name)
	if old != nil && old.Annotations[fleet.AnnotationWithdrawn] != changed.Annotations[fleet.AnnotationWithdrawn] {
		enqueueSiblings(s, changed, anySibling, ss.enqueue)
	}
}

// Unfinished returns the sorted deployments of a session that are not done, or whose
// result the manager does not have. Deployments that failed, or that must not be
// changed now, are done.
func (ss *Sessions) Unfinished(session *Session) []string {
	var out []string
	for _, bd := range session.Deployments.List("") {
		if !ss.isFinished(session, bd) {
			out = append(out, bd.Name)
		}
	}
	slices.Sort(out)
	return out
}

// isFinished reports whether a deployment of a session is done; see Unfinished.
func (ss *Sessions) isFinished(session *Session, bd *fleet.BundleDeployment) bool {
	if order := bd.Annotations[fleet.AnnotationWithdrawn]; order != "" {
		return report.Answered(bd, order)
	}
	if bd.Spec.DeploymentID == "" || isPaused(&bd.Spec, windowsOf(bd)) || ss.link.suspended.Load() {
		return true
	}
	if state := windowsOf(bd).at(ss.now()); state.closed != "" && (state.freeze || bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID) {
		return true
	}
	return ss.status.AtRest(session, bd.Name)
}

// enqueueSiblings enqueues other deployments of the same repository.
func enqueueSiblings(s *Session, of *fleet.BundleDeployment, which func(*fleet.BundleDeployment) bool, enqueue func(name string)) {
	for _, bd := range s.Deployments.List("") {
		if bd.Name != of.Name && sameRepository(bd.Labels, of.Labels) && which(bd) {
			enqueue(bd.Name)
		}
	}
}

// anySibling selects every deployment for enqueueSiblings.
func anySibling(*fleet.BundleDeployment) bool { return true }

// sameRepository reports whether two deployments are made from the same GitRepo
// or HelmOp.
func sameRepository(a, b map[string]string) bool {
	if a[fleet.LabelBundleNamespace] != b[fleet.LabelBundleNamespace] {
		return false
	}
	repo, op := a[fleet.LabelRepoName], a[fleet.LabelHelmOpName]
	return repo != "" && repo == b[fleet.LabelRepoName] || op != "" && op == b[fleet.LabelHelmOpName]
}
