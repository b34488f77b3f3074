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
func (at *attempts) setTried(s *snapshot) {
	at.mu.Lock()
	defer at.mu.Unlock()
	a := at.attemptOf(s.name)
	a.id, a.failed = s.spec.DeploymentID, 0
}

// addFailure records another failed try, and returns the delay before the next.
func (at *attempts) addFailure(s *snapshot) time.Duration {
	at.mu.Lock()
	defer at.mu.Unlock()
	a := at.attemptOf(s.name)
	a.id, a.failed = s.spec.DeploymentID, a.failed+1
	return backOff(a.failed)
}

// lastTriedIs reports whether a deployment id is the one that was tried last.
func (at *attempts) lastTriedIs(name, id string) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	a := at.last[name]
	return a != nil && a.id == id
}

// failedDeployments returns the deployments whose last try has failed.
func (at *attempts) failedDeployments() []string {
	at.mu.Lock()
	defer at.mu.Unlock()
	var out []string
	for name, a := range at.last {
		if a.failed > 0 {
			out = append(out, name)
		}
	}
	return out
}

// forget removes what is known of a deployment.
func (at *attempts) forget(name string) {
	at.mu.Lock()
	defer at.mu.Unlock()
	delete(at.last, name)
}

// attemptOf returns the last try of a deployment. The caller holds t.mu.
func (at *attempts) attemptOf(name string) *attempt {
	a := at.last[name]
	if a == nil {
		a = &attempt{}
		at.last[name] = a
	}
	return a
}

// setPermanentFailure records a permanent failure. It keeps the payload for another
// try.
func (at *attempts) setPermanentFailure(s *snapshot, f *store.Failure) {
	s.rec.Failed = f
	if !release.MayPass(f.Reason) {
		at.setTried(s)
		s.rec.Chunks = 0
		return
	}
	delay := at.addFailure(s)
	at.mu.Lock()
	defer at.mu.Unlock()
	at.attemptOf(s.name).next = at.now().Add(delay)
	s.requeueAfter(delay)
}

// reportEarlierFailure reports the permanent failure of an earlier run.
func (at *attempts) reportEarlierFailure(s *snapshot) {
	f := s.rec.Failed
	if f == nil || !release.MayPass(f.Reason) {
		at.setTried(s)
	} else {
		at.mu.Lock()
		a := at.attemptOf(s.name)
		a.id = s.spec.DeploymentID
		s.requeueAfter(a.next.Sub(at.now()))
		at.mu.Unlock()
	}
	if f != nil {
		s.fail(report.Failure{Reason: f.Reason, Message: f.Message, Permanent: true})
	}
}

// retryDue reports whether another try is due although the last one has failed
// permanently. It is due after a start of the agent.
func (at *attempts) retryDue(s *snapshot) bool {
	f := s.rec.Failed
	if s.bd == nil || f == nil || f.ID != s.spec.DeploymentID || !release.MayPass(f.Reason) {
		return false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	return !at.now().Before(at.attemptOf(s.name).next)
}
