package clusterimport

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// failures are the clusters that did not answer, and those whose last import failed.
type failures struct {
	now func() time.Time

	mu     sync.Mutex
	away   map[kube.Key]*absence
	failed map[kube.Key]bool
}

// absence is a cluster whose API server did not answer.
type absence struct {
	delays kube.Backoff
	secret string    // version of the Secret of the last try
	until  time.Time // when it may be tried again
}

// add records that a Cluster did not answer, with the resourceVersion of its Secret.
func (a *failures) add(key kube.Key, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away[key] = &absence{delays: kube.Backoff{First: unreachableFirst, Last: unreachableLast}, secret: version}
	a.failed[key] = true
}

// has reports whether a Cluster did not answer with this resourceVersion of its Secret.
// After a change of the Secret, the Cluster is tried again.
func (a *failures) has(key kube.Key, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.away[key]
	if was == nil || was.secret == version {
		return was != nil
	}
	delete(a.away, key)
	return false
}

// remaining returns how long a Cluster that did not answer is not tried again.
func (a *failures) remaining(key kube.Key) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.away[key]; was != nil {
		return was.until.Sub(a.now())
	}
	return 0
}

// postpone returns the delay before the next try of a Cluster that did not answer
// again; 0 for a Cluster whose Secret has just changed.
func (a *failures) postpone(key kube.Key) time.Duration {
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

// setFailed records that the import of a Cluster failed.
func (a *failures) setFailed(key kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[key] = true
}

// hasFailed reports whether the last import of a Cluster failed.
func (a *failures) hasFailed(key kube.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[key]
}

// setSucceeded records that the import of a Cluster succeeded.
func (a *failures) setSucceeded(key kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.away, key)
	delete(a.failed, key)
}
