package workspace

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// prunedAgain is when an object is written again that was not kept as a whole.
const prunedAgain = 5 * time.Minute

// prunedFields records the objects of which the API server drops fields, because its
// CRDs lack them.
type prunedFields struct {
	now   func() time.Time
	known sync.Map // lack, by kube.Key
}

// A lack records an object of which the API server did not keep all fields.
type lack struct {
	wanted, kept string // digests
	again        time.Time
}

// remaining returns how long an object need not be written again: it lacks only the
// fields that the API server drops. wanted is the digest of the desired object.
func (p *prunedFields) remaining(key kube.Key, wanted string, live any) time.Duration {
	known, ok := p.known.Load(key)
	if !ok {
		return 0
	}
	before, _ := known.(lack)
	kept, err := plan.Digest(live)
	if err != nil || before.wanted != wanted || before.kept != kept {
		return 0
	}
	return before.again.Sub(p.now())
}

// set records what the API server has stored of an object.
func (p *prunedFields) set(key kube.Key, wanted string, written any) error {
	kept, err := plan.Digest(written)
	if err != nil {
		return err
	}
	p.known.Store(key, lack{wanted, kept, p.now().Add(prunedAgain)})
	return nil
}

// forget drops the record of an object that is complete, or was deleted.
func (p *prunedFields) forget(key kube.Key) { p.known.Delete(key) }
