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
func (f *failures) add(key kube.Key, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away[key] = &absence{delays: kube.Backoff{First: unreachableFirst, Last: unreachableLast}, secret: version}
	f.failed[key] = true
}

// has reports whether a Cluster did not answer with this resourceVersion of its Secret.
// After a change of the Secret, the Cluster is tried again.
func (f *failures) has(key kube.Key, version string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.away[key]
	if was == nil || was.secret == version {
		return was != nil
	}
	delete(f.away, key)
	return false
}

// remaining returns how long a Cluster that did not answer is not tried again.
func (f *failures) remaining(key kube.Key) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was := f.away[key]; was != nil {
		return was.until.Sub(f.now())
	}
	return 0
}

// postpone returns the delay before the next try of a Cluster that did not answer
// again; 0 for a Cluster whose Secret has just changed.
func (f *failures) postpone(key kube.Key) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.away[key]
	if was == nil {
		return 0
	}
	delay := was.delays.Next()
	was.until = f.now().Add(delay)
	return delay
}

// setFailed records that the import of a Cluster failed.
func (f *failures) setFailed(key kube.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed[key] = true
}

// hasFailed reports whether the last import of a Cluster failed.
func (f *failures) hasFailed(key kube.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[key]
}

// setSucceeded records that the import of a Cluster succeeded.
func (f *failures) setSucceeded(key kube.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.away, key)
	delete(f.failed, key)
}
