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

// slots limit how many writes run at once. The limit grows by one after each round of
// fast answers. It shrinks when the API server asks for it (429, or no answer in time)
// or becomes slow, at most once for each answer that was in progress. This is additive
// increase, multiplicative decrease, as in RFC 5681.
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

// acquire waits for a slot.
func (s *slots) acquire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used >= int(s.limit) {
		s.free.Wait()
	}
	s.used++
}

// release returns a slot. took is how long the write took, err its error: they adjust
// the limit.
func (s *slots) release(took time.Duration, err error) {
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

// run runs a write that has a slot, and releases the slot afterwards, also after a
// panic.
func (s *slots) run(do func() error) (err error) {
	begin := s.now()
	defer func() { s.release(s.now().Sub(begin), err) }()
	return do()
}

// drain waits until no write is in progress.
func (s *slots) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used > 0 {
		s.free.Wait()
	}
}

// A batchTurn is what one Bundle may write before other Bundles write: the writes that
// begin within a time slice. The Bundle may get another slice before all answers of the
// first have arrived; otherwise slots would stay unused when answers take longer than a
// slice.
type batchTurn struct {
	slots *slots
	until time.Time
	wg    sync.WaitGroup

	mu      sync.Mutex
	answers []func() error // that came and were not looked at
}

// newTurn begins the first time slice of a Bundle.
func (s *slots) newTurn() *batchTurn { return &batchTurn{slots: s, until: s.now().Add(slice)} }

// renew begins another slice.
func (t *batchTurn) renew() { t.until = t.slots.now().Add(slice) }

// isOver reports that the time slice is over and no further write may begin.
func (t *batchTurn) isOver() bool { return t.slots.now().After(t.until) }

// write runs do in the background when it gets a slot. handleAnswers or wait then calls
// after, if not nil, with the error of do; the error that after returns becomes the
// error of the reconciliation.
func (t *batchTurn) write(do func() error, after func(error) error) {
	t.slots.acquire()
	t.wg.Go(func() {
		err := t.slots.run(do)
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

// handleAnswers handles the answers that have arrived.
func (t *batchTurn) handleAnswers() error {
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
	return joinErrors(errs)
}

// wait waits for all answers and handles them.
func (t *batchTurn) wait() error {
	t.wg.Wait()
	return t.handleAnswers()
}

// A batch limits how many creations may be in progress at once; nil: no limit.
type batch chan struct{}

// newBatch returns a batch of a size; 0 is no limit.
func newBatch(size int) batch {
	if size <= 0 {
		return nil
	}
	return make(batch, size)
}

// acquire waits until another creation may begin; it does nothing for other writes.
func (b batch) acquire(e writeKind) {
	if b != nil && e == create {
		b <- struct{}{}
	}
}

// release ends a creation; it does nothing for other writes.
func (b batch) release(e writeKind) {
	if b != nil && e == create {
		<-b
	}
}
