package deploy

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// A permanent failure that release.MayPass reports stays in the status like the others, so that users
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

// setTried records that the agent has tried the desired version without a failure that
// counts.
func (t *attempts) setTried(s *snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attemptOf(s.name)
	a.id, a.failed = s.spec.DeploymentID, 0
}

// addFailure records another failed try, and returns the delay before the next.
func (t *attempts) addFailure(s *snapshot) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attemptOf(s.name)
	a.id, a.failed = s.spec.DeploymentID, a.failed+1
	return backOff(a.failed)
}

// lastTriedIs reports whether a deployment id is the one that was tried last.
func (t *attempts) lastTriedIs(name, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.last[name]
	return a != nil && a.id == id
}

// failedDeployments returns the deployments whose last try has failed.
func (t *attempts) failedDeployments() []string {
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

// attemptOf returns the last try of a deployment. The caller holds t.mu.
func (t *attempts) attemptOf(name string) *attempt {
	a := t.last[name]
	if a == nil {
		a = &attempt{}
		t.last[name] = a
	}
	return a
}

// setPermanentFailure records a permanent failure. It keeps the payload for another
// try.
func (t *attempts) setPermanentFailure(s *snapshot, f *store.Failure) {
	s.rec.Failed = f
	if !release.MayPass(f.Reason) {
		t.setTried(s)
		s.rec.Chunks = 0
		return
	}
	delay := t.addFailure(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attemptOf(s.name).next = t.now().Add(delay)
	s.requeueAfter(delay)
}

// reportEarlierFailure reports the permanent failure of an earlier run.
func (t *attempts) reportEarlierFailure(s *snapshot) {
	f := s.rec.Failed
	if f == nil || !release.MayPass(f.Reason) {
		t.setTried(s)
	} else {
		t.mu.Lock()
		a := t.attemptOf(s.name)
		a.id = s.spec.DeploymentID
		s.requeueAfter(a.next.Sub(t.now()))
		t.mu.Unlock()
	}
	if f != nil {
		s.fail(report.Failure{Reason: f.Reason, Message: f.Message, Permanent: true})
	}
}

// retryDue reports whether another try is due although the last one has failed
// permanently. It is due after a start of the agent.
func (t *attempts) retryDue(s *snapshot) bool {
	f := s.rec.Failed
	if s.bd == nil || f == nil || f.ID != s.spec.DeploymentID || !release.MayPass(f.Reason) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.now().Before(t.attemptOf(s.name).next)
}
