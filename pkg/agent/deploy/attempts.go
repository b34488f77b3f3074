package deploy

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// A permanent failure that release.Passes stays in the status like the others, so that users
// see that they have to act. The agent retries it as often as one that may pass by itself.

// attempts know how often each deployment was tried, and when it is tried again.
type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]*attempt // by name of the deployment
}

// attempt is the last attempt of a deployment.
type attempt struct {
	id     string    // the deployment id that was tried
	failed int       // attempts that failed in a row
	next   time.Time // when a permanent failure that may pass is tried again
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, last: map[string]*attempt{}}
}

// tried notes that the desired version was tried, and that the attempt has not failed in
// a way that counts.
func (t *attempts) tried(s *snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of(s.name)
	a.id, a.failed = s.spec.DeploymentID, 0
}

// failed notes one more attempt that failed, and returns the delay before the next.
func (t *attempts) failed(s *snapshot) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of(s.name)
	a.id, a.failed = s.spec.DeploymentID, a.failed+1
	return backOff(a.failed)
}

// lastIs reports whether a deployment id is the last that was tried.
func (t *attempts) lastIs(name, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.last[name]
	return a != nil && a.id == id
}

// failing are the deployments whose last attempt has failed.
func (t *attempts) failing() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for name, a := range t.last {
		if a.failed > 0 {
			out = append(out, name)
		}
	}
	return out
}

// forget removes what is known of a deployment.
func (t *attempts) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, name)
}

// of is the last attempt of a deployment. The caller holds t.mu.
func (t *attempts) of(name string) *attempt {
	a := t.last[name]
	if a == nil {
		a = &attempt{}
		t.last[name] = a
	}
	return a
}

// gaveUp notes a permanent failure. The payload is kept for another attempt.
func (t *attempts) gaveUp(s *snapshot, f *store.Failure) {
	s.rec.Failed = f
	if !release.Passes(f.Reason) {
		t.tried(s)
		s.rec.Chunks = 0
		return
	}
	delay := t.failed(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(s.name).next = t.now().Add(delay)
	s.again(delay)
}

// failedBefore reports the permanent failure of an earlier run.
func (t *attempts) failedBefore(s *snapshot) {
	f := s.rec.Failed
	if f == nil || !release.Passes(f.Reason) {
		t.tried(s)
	} else {
		t.mu.Lock()
		a := t.of(s.name)
		a.id = s.spec.DeploymentID
		s.again(a.next.Sub(t.now()))
		t.mu.Unlock()
	}
	if f != nil {
		s.fail(report.Failure{Reason: f.Reason, Message: f.Message, Permanent: true})
	}
}

// due reports whether another attempt is due although the last one has failed
// permanently. After a start of the agent it is.
func (t *attempts) due(s *snapshot) bool {
	f := s.rec.Failed
	if s.bd == nil || f == nil || f.ID != s.spec.DeploymentID || !release.Passes(f.Reason) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.now().Before(t.of(s.name).next)
}
