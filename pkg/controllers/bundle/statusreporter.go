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
	// maxFinalWrites is how many final states of one object are written without a delay.
	maxFinalWrites = 5
	// statusWriters is how many objects of one kind are reported at once.
	statusWriters = 4
)

// A pace says how long changes to transitional states are collected before they are
// written.
type pace struct {
	settle  time.Duration // since the last change
	timeout time.Duration // since the first, whatever comes after it
	// spare limits how many transitional states of all objects are written before their
	// timeout ends: a burst of this size, and one more each second. 0 is no limit.
	spare int
}

// A reporter writes the status of the objects of one kind. It writes a final state,
// such as Ready, at once, and transitional states at its pace, at most once per window
// and object.
type reporter struct {
	loop *kube.Controller
	now  func() time.Time
	pace pace

	mu   sync.Mutex
	last map[kube.Key]writeState
	// spare is the number of transitional states that may be written as of spareAt.
	spare float64
	// spareAt is when spare was computed.
	spareAt time.Time
}

// A writeState says when the status of an object was written, and when it may be
// written again.
type writeState struct {
	at     time.Time
	every  time.Duration // how often it may be written
	first  time.Time     // the oldest change that was not looked at yet; zero: none
	latest time.Time
	final  bool // the state that was last asked to be written
	urgent bool // a final state was reached since the last look
	// spent reports that the write that begin allowed has used one of the spare writes.
	spent bool
	// finalLeft is how many final states may be written outside of the window, as of
	// finalLeftAt.
	finalLeft float64
	// finalLeftAt is when finalLeft was computed.
	finalLeftAt time.Time
	// pruned reports that the API server has dropped fields of the last written status.
	// want is the digest of the written status, have the digest of the stored one.
	pruned     bool
	want, have [sha256.Size]byte
}

// finalWrites returns how many final states may be written outside of the window now:
// at most maxFinalWrites, and one more after each window.
func (w *writeState) finalWrites(now time.Time) float64 {
	return min(maxFinalWrites, w.finalLeft+now.Sub(w.finalLeftAt).Seconds()/window.Seconds())
}

// newReporter makes a reporter. write compares the status of an object with what it
// should be, and writes it if it differs; it returns the size of what it wrote, 0 if it
// wrote nothing.
func newReporter(name string, p pace, now func() time.Time, write func(context.Context, kube.Key) (int, error)) *reporter {
	r := &reporter{now: now, pace: p, last: map[kube.Key]writeState{}, spare: float64(p.spare), spareAt: now()}
	r.loop = kube.NewController(name, statusWriters, func(ctx context.Context, key kube.Key) (kube.Result, error) {
		if left := r.begin(key); left > 0 {
			return kube.Result{After: left}, nil
		}
		n, err := write(ctx, key)
		switch {
		case err != nil:
			r.failed(key)
		case n > 0:
			r.wrote(key, n)
		default:
			r.returnSpare(key)
		}
		return kube.Done, err
	})
	return r
}

// enqueue makes the reporter check the status of an object. final says that its state
// is final: it changes only after another event.
func (r *reporter) enqueue(key kube.Key, final bool) {
	if left := r.requestDelay(key, final); left > 0 {
		r.loop.AddAfter(key, left)
		return
	}
	r.loop.Add(key)
}

// requestDelay records a request and returns how long the check has to wait. It returns
// 0 for an object that has reached a final state.
func (r *reporter) requestDelay(key kube.Key, final bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.urgent = w.urgent || final && !w.final
	w.final, w.latest = final, r.now()
	if w.first.IsZero() {
		w.first = w.latest
	}
	r.last[key] = w
	return r.remaining(w)
}

// remaining returns how long the next check of an object has to wait.
func (r *reporter) remaining(w writeState) time.Duration {
	now := r.now()
	closed := w.every - now.Sub(w.at)
	switch {
	case w.urgent: // limited, so that a flapping object is not written repeatedly
		return max(0, time.Duration((1-w.finalWrites(now))*float64(window)))
	case w.final || w.first.IsZero():
		return closed
	}
	settled := min(r.pace.settle-now.Sub(w.latest), r.pace.timeout-now.Sub(w.first))
	return max(closed, settled)
}

// begin starts a check that is due, and returns 0; or it returns how much longer the
// check has to wait: the status was written since the request, more changes came, or
// too many transitional states are being written.
func (r *reporter) begin(key kube.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if left := r.remaining(w); left > 0 {
		return left
	}
	w.spent = false
	if !w.urgent && !w.final && r.now().Sub(w.first) < r.pace.timeout {
		left := r.takeSpare()
		if left > 0 {
			return left
		}
		w.spent = r.pace.spare > 0
	}
	if w.urgent {
		w.finalLeft, w.finalLeftAt = w.finalWrites(r.now())-1, r.now()
	}
	w.urgent, w.first = false, time.Time{}
	r.last[key] = w
	return 0
}

// returnSpare returns the spare write that begin took, if the check has written
// nothing.
func (r *reporter) returnSpare(key kube.Key) {
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

// takeSpare takes one of the spare writes, or returns when to try again.
func (r *reporter) takeSpare() time.Duration {
	if r.pace.spare == 0 {
		return 0
	}
	now := r.now()
	r.spare = min(float64(r.pace.spare), r.spare+now.Sub(r.spareAt).Seconds())
	r.spareAt = now
	if r.spare < 1 {
		return time.Second
	}
	r.spare--
	return 0
}

// wrote records a write and its size, by which the next window is computed.
func (r *reporter) wrote(key kube.Key, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.at, w.every = r.now(), time.Duration(1+bytes/windowBytes)*window
	r.last[key] = w
}

// failed makes the next check of an object ignore the window.
func (r *reporter) failed(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.urgent = true
	r.last[key] = w
}

// isWritten reports whether there is nothing to write: the status is as it should be,
// or it equals what the API server stored when the same status was written before. An
// API server with older CRDs drops fields; the reporter would write the status again
// and again.
func (r *reporter) isWritten(key kube.Key, have, want any) bool {
	if equality.Semantic.DeepEqual(have, want) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	return w.pruned && w.want == digestOf(want) && w.have == digestOf(have)
}

// setAnswer records what was written (want) and what the API server stored (have).
func (r *reporter) setAnswer(key kube.Key, have, want any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if w.pruned = !equality.Semantic.DeepEqual(have, want); w.pruned {
		w.want, w.have = digestOf(want), digestOf(have)
	}
	r.last[key] = w
}

var times = regexp.MustCompile(`"last(Update|Transition)Time":"[^"]*",?`)

// digestOf returns the digest of a status without the times of its conditions.
func digestOf(status any) [sha256.Size]byte {
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
