package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

const (
	// window is how often the status of one object is written while its state
	// is passing, for each started windowBytes of the object.
	window      = time.Second
	windowBytes = 64 << 10
	// mostEndings is how many final states of one object are written at once.
	mostEndings = 5
	// statusWriters is how many objects of one kind are reported at once.
	statusWriters = 4
)

// A pace says how long changes to transitional states are collected before they are
// written.
type pace struct {
	settle  time.Duration // since the last change
	timeout time.Duration // since the first, whatever comes after it
	// spare limits how many passing states of all objects are written before
	// their patience ends: so many at once, and one more a second. 0 is no limit.
	spare int
}

// A reporter writes the status of one kind of object: a final state at once,
// passing states at its pace and at most once in a window.
type reporter struct {
	loop *kube.Controller
	now  func() time.Time
	pace pace

	mu    sync.Mutex
	last  map[kube.Key]written
	spare float64   // passing states that may be written
	at    time.Time // as of then
}

// written records the last write of a status.
type written struct {
	at     time.Time
	every  time.Duration // how often it may be written
	first  time.Time     // the oldest change that was not looked at yet; zero: none
	latest time.Time
	final  bool      // the state that was last asked to be written
	urgent bool      // a final state was reached since the last look
	spent  bool      // the last look has taken a spare one
	ends   float64   // final states that may be written outside of the window
	ended  time.Time // as of then
	// pruned reports that the API server did not keep all of what was written last:
	// want is the digest of that, and have that of what the server stored.
	pruned     bool
	want, have [sha256.Size]byte
}

// endings is how many final states may be written outside of the window: some at
// once, and one more in each window.
func (w *written) endings(now time.Time) float64 {
	return min(mostEndings, w.ends+now.Sub(w.ended).Seconds()/window.Seconds())
}

// newReporter makes a reporter. write compares the object's status with what
// it should be and writes it if it differs; it returns the bytes that it
// wrote, 0 for nothing.
func newReporter(name string, p pace, now func() time.Time, write func(context.Context, kube.Key) (int, error)) *reporter {
	r := &reporter{now: now, pace: p, last: map[kube.Key]written{}, spare: float64(p.spare), at: now()}
	r.loop = kube.NewController(name, statusWriters, func(ctx context.Context, key kube.Key) (kube.Result, error) {
		if left := r.look(key); left > 0 {
			return kube.Result{After: left}, nil
		}
		n, err := write(ctx, key)
		switch {
		case err != nil:
			r.failed(key)
		case n > 0:
			r.wrote(key, n)
		default:
			r.spared(key)
		}
		return kube.Done, err
	})
	return r
}

// wake asks for a look at an object. final reports that its state is not changing to
// another.
func (r *reporter) wake(key kube.Key, final bool) {
	if left := r.ask(key, final); left > 0 {
		r.loop.AddAfter(key, left)
		return
	}
	r.loop.Add(key)
}

// ask is how long a look has to wait. Reaching a final state does not wait.
func (r *reporter) ask(key kube.Key, final bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.urgent = w.urgent || final && !w.final
	w.final, w.latest = final, r.now()
	if w.first.IsZero() {
		w.first = w.latest
	}
	r.last[key] = w
	return r.left(w)
}

// left is for how long an object is not looked at yet.
func (r *reporter) left(w written) time.Duration {
	now := r.now()
	closed := w.every - now.Sub(w.at)
	switch {
	case w.urgent: // limited, so that a flapping object is not written repeatedly
		return max(0, time.Duration((1-w.endings(now))*float64(window)))
	case w.final || w.first.IsZero():
		return closed
	}
	settled := min(r.pace.settle-now.Sub(w.latest), r.pace.timeout-now.Sub(w.first))
	return max(closed, settled)
}

// look returns how long a due look has to wait after all: the status was written since
// the look was asked for, more changes have come, or too many transitional states are
// being written already.
func (r *reporter) look(key kube.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if left := r.left(w); left > 0 {
		return left
	}
	w.spent = false
	if !w.urgent && !w.final && r.now().Sub(w.first) < r.pace.timeout {
		left := r.take()
		if left > 0 {
			return left
		}
		w.spent = r.pace.spare > 0
	}
	if w.urgent {
		w.ends, w.ended = w.endings(r.now())-1, r.now()
	}
	w.urgent, w.first = false, time.Time{}
	r.last[key] = w
	return 0
}

// spared gives back what the last look has taken and not used.
func (r *reporter) spared(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if !w.spent {
		return
	}
	w.spent = false
	r.last[key] = w
	r.spare++
}

// take takes one of the transitional states that may be written, or returns when to ask
// again.
func (r *reporter) take() time.Duration {
	if r.pace.spare == 0 {
		return 0
	}
	now := r.now()
	r.spare = min(float64(r.pace.spare), r.spare+now.Sub(r.at).Seconds())
	r.at = now
	if r.spare < 1 {
		return time.Second
	}
	r.spare--
	return 0
}

func (r *reporter) wrote(key kube.Key, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.at, w.every = r.now(), time.Duration(1+bytes/windowBytes)*window
	r.last[key] = w
}

// failed lets the next look come without waiting for a window.
func (r *reporter) failed(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.urgent = true
	r.last[key] = w
}

// done reports whether there is nothing to write: the status is as it should be, or it
// is what the API server has stored for the same status before. A server whose CRDs are
// older than ours drops fields; writing again would never end.
func (r *reporter) done(key kube.Key, have, want any) bool {
	if equality.Semantic.DeepEqual(have, want) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	return w.pruned && w.want == meaning(want) && w.have == meaning(have)
}

// answered notes what was written and what the API server made of it.
func (r *reporter) answered(key kube.Key, have, want any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if w.pruned = !equality.Semantic.DeepEqual(have, want); w.pruned {
		w.want, w.have = meaning(want), meaning(have)
	}
	r.last[key] = w
}

var times = regexp.MustCompile(`"last(Update|Transition)Time":"[^"]*",?`)

// meaning is the digest of a status without the times of its conditions.
func meaning(status any) [sha256.Size]byte {
	raw, err := json.Marshal(status)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(times.ReplaceAll(raw, nil))
}

// forget drops what is remembered of an object that is gone.
func (r *reporter) forget(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
