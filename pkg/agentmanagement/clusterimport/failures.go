package clusterimport

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// absences are the clusters that did not answer, and those whose last import did not go
// through.
type absences struct {
	now func() time.Time

	mu     sync.Mutex
	away   map[kube.Key]*absence
	failed map[kube.Key]bool
}

// absence is a cluster whose API server did not answer.
type absence struct {
	delays kube.Backoff
	secret string    // version of the Secret that it was tried with
	until  time.Time // it is not tried again before
}

// leave notes that a Cluster did not answer, through a version of its Secret.
func (a *absences) leave(key kube.Key, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away[key] = &absence{delays: kube.Backoff{First: unreachableFirst, Last: unreachableLast}, secret: version}
	a.failed[key] = true
}

// has reports whether a Cluster did not answer, through a version of its Secret. Another
// version is a new try.
func (a *absences) has(key kube.Key, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.away[key]
	if was == nil || was.secret == version {
		return was != nil
	}
	delete(a.away, key)
	return false
}

// rest is for how long a Cluster that did not answer is left alone.
func (a *absences) rest(key kube.Key) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.away[key]; was != nil {
		return was.until.Sub(a.now())
	}
	return 0
}

// postpone returns for how long a Cluster is left alone that has not answered again; 0 for
// one whose Secret has just changed.
func (a *absences) postpone(key kube.Key) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.away[key]
	if was == nil {
		return 0
	}
	delay := was.delays.Next()
	was.until = a.now().Add(delay)
	return delay
}

// fail notes that the import of a Cluster did not go through.
func (a *absences) fail(key kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[key] = true
}

// hasFailed reports whether the last import of a Cluster did not go through.
func (a *absences) hasFailed(key kube.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[key]
}

// succeeded notes that the import of a Cluster went through.
func (a *absences) succeeded(key kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.away, key)
	delete(a.failed, key)
}
