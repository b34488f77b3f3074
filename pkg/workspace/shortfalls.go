package workspace

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// prunedAgain is when an object is written again that was not kept as a whole.
const prunedAgain = 5 * time.Minute

// shortfalls records the objects of which the API server does not keep all fields,
// because their kind lacks fields.
type shortfalls struct {
	now   func() time.Time
	known sync.Map // lack, by kube.Key
}

// A lack records an object of which the API server did not keep all fields.
type lack struct {
	wanted, kept string // digests
	again        time.Time
}

// left is for how long an object need not be written again: it lacks, as it is now,
// what its kind has no place for. wanted is the digest of what is to be written.
func (s *shortfalls) left(key kube.Key, wanted string, live any) time.Duration {
	known, ok := s.known.Load(key)
	if !ok {
		return 0
	}
	before, _ := known.(lack)
	kept, err := plan.Digest(live)
	if err != nil || before.wanted != wanted || before.kept != kept {
		return 0
	}
	return before.again.Sub(s.now())
}

// note remembers what is kept of an object.
func (s *shortfalls) note(key kube.Key, wanted string, written any) error {
	kept, err := plan.Digest(written)
	if err != nil {
		return err
	}
	s.known.Store(key, lack{wanted, kept, s.now().Add(prunedAgain)})
	return nil
}

// forget says that an object is kept as it should be, or gone.
func (s *shortfalls) forget(key kube.Key) { s.known.Delete(key) }
