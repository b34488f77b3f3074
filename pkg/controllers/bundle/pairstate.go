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

// A versionCache is the computed version of a pair that needed no write.
type versionCache struct {
	inputs, id, outcome string
	release             release.ID
}

// A pairState is what the controllers remember of Bundles and their deployments between
// two reconciliations. After a restart it is empty, and the controllers compute it
// again.
type pairState struct {
	*base
	sources *sources

	mu         sync.Mutex
	compiled   map[kube.Key]*compiledEntry
	versions   map[kube.Key]map[kube.Key]versionCache
	stale      map[kube.Key]bool  // deployments that have to be written again
	writing    map[kube.Key]bool  // deployments that are being written
	unfinished map[kube.Key]*work // decisions that are not carried out yet
}

func newPairState(b *base, s *sources) *pairState {
	return &pairState{
		base: b, sources: s, compiled: map[kube.Key]*compiledEntry{}, versions: map[kube.Key]map[kube.Key]versionCache{},
		stale: map[kube.Key]bool{}, writing: map[kube.Key]bool{}, unfinished: map[kube.Key]*work{},
	}
}

// storeVersions stores the versions that a decision has computed and not written.
func (p *pairState) storeVersions(key kube.Key, d *decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions[key] = d.versions
}

// dropCompiled makes the next reconciliation of a Bundle compile it again.
func (p *pairState) dropCompiled(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.compiled, key)
}

// markStale forces a rewrite of a deployment even if its IDs match: another writer has
// changed it, or its values are gone.
func (p *pairState) markStale(key kube.Key) {
	if bundle, _, ok := p.table.PairOf(key); ok && !p.ownsBundle(bundle) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale[key] = true
}

// isWriting reports whether a deployment is being written.
func (p *pairState) isWriting(key kube.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writing[key]
}

// beginWrite records that a deployment is being written: its watch event may arrive
// before the answer. stale reports that markStale was called; beginWrite removes that
// mark, and a later markStale sets another one.
func (p *pairState) beginWrite(key kube.Key) (stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale = p.stale[key]
	delete(p.stale, key)
	p.writing[key] = true
	return stale
}

// endWrite records that a write has ended. stillStale says that the write failed, and
// that the deployment must still be rewritten. If markStale was called during the
// write, endWrite enqueues the Bundle.
func (p *pairState) endWrite(bundle, key kube.Key, stillStale bool) {
	p.mu.Lock()
	delete(p.writing, key)
	again := p.stale[key]
	if stillStale {
		p.stale[key] = true
	}
	p.mu.Unlock()
	if again {
		p.bundleQueue.Add(bundle)
	}
}

// saveWork stores the unwritten rest of a decision for the next reconciliation. It does
// not store a decision whose writes make clusters unavailable within a limit: each
// report may change that decision.
func (p *pairState) saveWork(w *work) {
	if w.countsUnavailable {
		return
	}
	w.resumed = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfinished[w.key] = w
}

// resumeWork returns the stored rest of a decision; nil if there is none, or if the
// Bundle, any cluster, a source, a limit or the permission to write has changed. Before it drops
// a decision, it waits for the writes in progress. b is nil for a Bundle that does not
// exist.
func (p *pairState) resumeWork(key kube.Key, b *fleet.Bundle) *work {
	p.mu.Lock()
	w, entry := p.unfinished[key], p.compiled[key]
	delete(p.unfinished, key)
	p.mu.Unlock()
	if w == nil {
		return nil
	}
	if b != nil && b.DeletionTimestamp == nil && entry != nil && entry.compiled == w.compiled && compiledFrom(w.compiled, b, p.limitsOf(key.Namespace, w.reach)) && p.table.Moves() == w.moves && p.sources.unchanged(key.Namespace, w.sources) {
		if p.suspension() == w.hold {
			return w
		}
	}
	w.turn.wg.Wait()
	return nil
}

// forget drops what is remembered of a Bundle.
func (p *pairState) forget(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.compiled, key)
	delete(p.versions, key)
}
