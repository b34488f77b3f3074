// Package statuswriter writes the statuses of BundleDeployments at the manager. It
// writes a status only if its meaning has changed, delays one that is about to change,
// and keeps statuses that it cannot write until the manager answers again. Package
// report of pkg/plan decides what a status says.
package statuswriter

import (
	"context"
	"fmt"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

const (
	// window is how long a status that is expected to change soon is held back, and how
	// often such a status is written at most.
	window = time.Second
	// awayDelay is when a status is written again that did not reach the manager.
	awayDelay = 10 * time.Second
)

// Statuses writes statuses; *kube.Store has it.
type Statuses interface {
	Get(ctx context.Context, key kube.Key) (*fleet.BundleDeployment, error)
	PatchStatus(ctx context.Context, old, changed *fleet.BundleDeployment) (*fleet.BundleDeployment, error)
}

// Cache holds the manager's deployments; *kube.Cache has it.
type Cache interface {
	// Listed reports whether no watch keeps the cache current.
	Listed() bool
	Put(*fleet.BundleDeployment)
}

// A Session is one connection to the manager.
type Session struct {
	ID       any // differs between sessions
	Statuses Statuses
	Cache    Cache
	// Away reports whether the manager is known to be away: the creator of the session
	// enqueues every deployment when it is back.
	Away func() bool
}

// A Report is what a run of the loop has found of a deployment.
type Report struct {
	Name   string
	Object *fleet.BundleDeployment // nil: the manager is away or lacks it
	// Generation and Spec are those of the record, where there is no object.
	Generation int64
	Spec       fleet.BundleDeploymentSpec
	// Unreported is what the record keeps of conditions that the manager does not know.
	// The writer changes it.
	Unreported *[]fleet.Condition
	Found      report.Found
}

// A Writer writes the statuses of the deployments of one agent. It is safe for
// concurrent use by different deployments.
type Writer struct {
	now func() time.Time

	mu          sync.Mutex
	deployments map[string]*deployment // by name
}

// deployment is what is known of the reports of one deployment. The run of the deployment
// alone uses it, except for what Writer.mu protects.
type deployment struct {
	pending    time.Time // since when a passing status is held back
	written    time.Time // when a status was written last
	unreported unreported

	reported any  // the session that knows how the deployment is; Writer.mu
	moving   bool // the reported state is about to change; Writer.mu
}

// New makes a writer that has written nothing.
func New(now func() time.Time) *Writer {
	return &Writer{now: now, deployments: map[string]*deployment{}}
}

// Write writes the status of a deployment if its meaning has changed. It delays a
// status that is expected to change soon, so that a deployment that becomes Ready
// quickly costs one write. after is when to report again; 0: after a change.
func (w *Writer) Write(ctx context.Context, s Session, r Report) (after time.Duration, err error) {
	d, now := w.deploymentOf(r.Name), w.now()
	status := report.Status(r.Object, r.Found, now)
	status.Conditions = report.Backdate(status.Conditions, r.Object.Status.Conditions, d.unreported.conditions(r), now)
	if report.Equivalent(status, r.Object.Status) {
		d.pending = time.Time{}
		w.setReported(s, d, r, status)
		return 0, nil
	}
	if report.IsTransient(status) {
		if rest := d.holdBack(now); rest > 0 {
			return rest, nil
		}
	}
	err = writeStatus(ctx, s, r.Object, status)
	switch {
	case err == nil:
		w.setReported(s, d, r, status)
		d.written, d.pending = w.now(), time.Time{}
	case kube.IsAway(err), kube.IsDenied(err):
		d.unreported.remember(r, w.now())
	}
	return judgeWrite(s, r.Name, err)
}

// Answer writes the status that answers an order. It does not compare it with earlier
// ones.
func (w *Writer) Answer(ctx context.Context, s Session, object *fleet.BundleDeployment, status fleet.BundleDeploymentStatus) (after time.Duration, err error) {
	return judgeWrite(s, object.Name, writeStatus(ctx, s, object, status))
}

// Remember stores a report while the manager is unreachable or does not have the
// deployment.
func (w *Writer) Remember(r Report) { w.deploymentOf(r.Name).unreported.remember(r, w.now()) }

// AtRest reports whether the manager of a session has the final status of a deployment.
func (w *Writer) AtRest(session any, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.deployments[name]
	return d != nil && d.reported == session && !d.moving
}

// Forget drops all state of a deployment.
func (w *Writer) Forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.deployments, name)
}

// deploymentOf returns the state of a deployment, and makes it if there is none.
func (w *Writer) deploymentOf(name string) *deployment {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.deployments[name]
	if d == nil {
		d = &deployment{}
		w.deployments[name] = d
	}
	return d
}

// holdBack returns for how long a transitional status is not written yet.
func (d *deployment) holdBack(now time.Time) time.Duration {
	if d.pending.IsZero() {
		d.pending = now
	}
	since := d.pending
	if d.written.After(since) {
		since = d.written
	}
	return window - now.Sub(since)
}

// setReported records that the manager has the status of a deployment, and whether that
// status is expected to change soon.
func (w *Writer) setReported(s Session, d *deployment, r Report, status fleet.BundleDeploymentStatus) {
	d.unreported.forget(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	d.reported = s.ID
	d.moving = report.IsTransient(status) || r.Found.Failure != nil && r.Found.Failure.Waiting
}

// writeStatus writes a status. If no watch keeps the cache current, it stores the
// result in the cache.
func writeStatus(ctx context.Context, s Session, object *fleet.BundleDeployment, status fleet.BundleDeploymentStatus) error {
	changed := object.DeepCopy()
	changed.Status = status
	got, err := s.Statuses.PatchStatus(ctx, object, changed)
	if !s.Cache.Listed() {
		return err
	}
	if kube.IsConflict(err) { // the object has changed since the list, and no watch reports that
		fresh, readErr := s.Statuses.Get(ctx, kube.KeyOf(object))
		if readErr != nil {
			return readErr
		}
		s.Cache.Put(fresh)
		return err
	}
	if err == nil && got != object {
		s.Cache.Put(got)
	}
	return err
}

// judgeWrite handles the error of a write. If the manager is unreachable, the status is
// written later; a missing object needs none. An error of admission has the text of the
// webhook.
func judgeWrite(s Session, name string, err error) (after time.Duration, failure error) {
	switch {
	case err == nil, kube.IsGone(err):
		return 0, nil
	case kube.IsAway(err):
		if s.Away != nil && s.Away() {
			return 0, nil
		}
		return awayDelay, nil
	}
	return 0, fmt.Errorf("report %q: %w", name, err)
}
