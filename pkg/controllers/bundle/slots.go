package bundle

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// How many writes run at once, over all Bundles: as many as the API server takes
// without delaying other clients.
const (
	fewestWriters = 16
	firstWriters  = 32
	mostWriters   = 64
	// sluggish is how long a write takes that shows that there are too many.
	sluggish = 5 * time.Second
	// backOff is the factor for the number of writers then.
	backOff = 0.7
)

// slots let writes through: one more after each round of prompt answers. There are
// fewer when the API server asks for it (429, or no answer in time) or becomes slow, at
// most once for each answer that was under way. This is additive increase,
// multiplicative decrease, as in RFC 5681.
type slots struct {
	mu     sync.Mutex
	free   *sync.Cond
	now    func() time.Time
	used   int
	limit  float64
	lately time.Time // when the limit was lowered
}

func newSlots(now func() time.Time) *slots {
	s := &slots{now: now, limit: firstWriters}
	s.free = sync.NewCond(&s.mu)
	return s
}

// enter waits for a slot.
func (s *slots) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used >= int(s.limit) {
		s.free.Wait()
	}
	s.used++
}

// leave gives a slot back, and reports what the write was answered after which
// time.
func (s *slots) leave(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.used >= int(s.limit)
	s.used--
	switch at := s.now(); {
	case kube.IsOverloaded(err) || took >= sluggish:
		if at.Add(-took).After(s.lately) {
			s.limit, s.lately = max(fewestWriters, s.limit*backOff), at
		}
	case full:
		s.limit = min(mostWriters, s.limit+1/s.limit)
	}
	s.free.Broadcast()
}

// through does a write that has a slot and gives the slot back, however the
// write ends.
func (s *slots) through(do func() error) (err error) {
	begin := s.now()
	defer func() { s.leave(s.now().Sub(begin), err) }()
	return do()
}

// drain waits until no write is under way.
func (s *slots) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used > 0 {
		s.free.Wait()
	}
}

// A batchTurn is what one Bundle writes before others have theirs: as much as begins
// within a slice of time, through the manager's slots. It may be given another
// slice while answers are still to come: waiting for the slowest of them after
// each slice would leave the slots empty where answers take longer than a slice.
type batchTurn struct {
	slots *slots
	until time.Time
	wg    sync.WaitGroup

	mu      sync.Mutex
	answers []func() error // that came and were not looked at
}

func (s *slots) turn() *batchTurn { return &batchTurn{slots: s, until: s.now().Add(slice)} }

// renew begins another slice.
func (t *batchTurn) renew() { t.until = t.slots.now().Add(slice) }

// over reports that nothing more may begin.
func (t *batchTurn) over() bool { return t.slots.now().After(t.until) }

// write does a write when there is a slot for it, without waiting for its answer. look
// or wait call after, where not nil, with the answer; what it returns is the error of
// this run.
func (t *batchTurn) write(do func() error, after func(error) error) {
	t.slots.enter()
	t.wg.Go(func() {
		err := t.slots.through(do)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answers = append(t.answers, func() error {
			if after != nil {
				return after(err)
			}
			return err
		})
	})
}

// look handles the answers that have come.
func (t *batchTurn) look() error {
	t.mu.Lock()
	answers := t.answers
	t.answers = nil
	t.mu.Unlock()
	var errs []error
	for _, answer := range answers {
		if err := answer(); err != nil {
			errs = append(errs, err)
		}
	}
	return joined(errs)
}

// wait waits for all answers and takes them in.
func (t *batchTurn) wait() error {
	t.wg.Wait()
	return t.look()
}

// A batch lets at most so many creations be without an answer at once.
type batch chan struct{}

// newBatch is a batch of a size; 0 is any.
func newBatch(size int) batch {
	if size <= 0 {
		return nil
	}
	return make(batch, size)
}

func (b batch) enter(e writeKind) {
	if b != nil && e == create {
		b <- struct{}{}
	}
}

func (b batch) leave(e writeKind) {
	if b != nil && e == create {
		<-b
	}
}
