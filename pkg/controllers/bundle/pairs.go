package bundle

import (
	"sync"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A compiledEntry is a compiled Bundle and the values that it was compiled with.
type compiledEntry struct {
	compiled *deployment.Compiled
	values   map[string][]byte
	hash     string
}

// A versionCache remembers what was worked out for a pair that needed no write.
type versionCache struct {
	inputs, id, outcome string
	release             release.ID
}

// A pairState is what the controllers remember of Bundles and their deployments between
// two runs. After a restart it is empty, and everything is worked out again.
type pairState struct {
	*base
	sources *sources

	mu         sync.Mutex
	compiled   map[kube.Key]*compiledEntry
	versions   map[kube.Key]map[kube.Key]versionCache
	lost       map[kube.Key]bool  // deployments that have to be written again
	writing    map[kube.Key]bool  // deployments that are being written
	unfinished map[kube.Key]*work // decisions that are not carried out yet
}

func newPairState(b *base, s *sources) *pairState {
	return &pairState{
		base: b, sources: s, compiled: map[kube.Key]*compiledEntry{}, versions: map[kube.Key]map[kube.Key]versionCache{},
		lost: map[kube.Key]bool{}, writing: map[kube.Key]bool{}, unfinished: map[kube.Key]*work{},
	}
}

// remember keeps what was worked out but needs no write.
func (e *pairState) remember(key kube.Key, d *decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.versions[key] = d.versions
}

func (e *pairState) dropCompiled(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.compiled, key)
}

// markStale forces a rewrite of a deployment even if its IDs match: another writer has
// changed it, or its values are gone.
func (e *pairState) markStale(key kube.Key) {
	if bundle, _, ok := e.table.PairOf(key); ok && !e.mine(bundle) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost[key] = true
}

func (e *pairState) isWriting(key kube.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writing[key]
}

// beginWrite notes that a deployment is being written, so that the watch may be ahead
// of the answer. It returns whether the deployment had to be written again: this write
// does that. A loss from now on is noted separately.
func (e *pairState) beginWrite(key kube.Key) (lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost = e.lost[key]
	delete(e.lost, key)
	e.writing[key] = true
	return lost
}

// endWrite notes that a write has ended. still says that the deployment must still be
// written again: its Bundle will be tried again. For one that was lost meanwhile the
// Bundle is planned.
func (e *pairState) endWrite(bundle, key kube.Key, still bool) {
	e.mu.Lock()
	delete(e.writing, key)
	again := e.lost[key]
	if still {
		e.lost[key] = true
	}
	e.mu.Unlock()
	if again {
		e.bundleQueue.Add(bundle)
	}
}

// leaveOff keeps the rest of a decision for the next run. A decision that takes
// deployments down within limits is made again instead, since every report may change
// it.
func (e *pairState) leaveOff(w *work) {
	if w.costs {
		return
	}
	w.resumed = true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unfinished[w.key] = w
}

// resume returns the rest of a decision, unless its Bundle (nil: it is gone), any
// cluster, or the permission to write has changed. It waits for the writes under way of
// a decision that it drops.
func (e *pairState) resume(key kube.Key, b *fleet.Bundle) *work {
	e.mu.Lock()
	w, entry := e.unfinished[key], e.compiled[key]
	delete(e.unfinished, key)
	e.mu.Unlock()
	if w == nil {
		return nil
	}
	if b != nil && b.DeletionTimestamp == nil && entry != nil && entry.compiled == w.compiled && fits(w.compiled, b) && e.table.Moves() == w.moves && e.sources.same(key.Namespace, w.sources) {
		if hold, _ := e.held(key.Namespace); hold == w.hold {
			return w
		}
	}
	w.turn.wg.Wait()
	return nil
}

// forget drops what is remembered of a Bundle.
func (e *pairState) forget(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.compiled, key)
	delete(e.versions, key)
}
