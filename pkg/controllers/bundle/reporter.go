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
	// statusWriters is how many objects of one kind are reported at once.
	statusWriters = 4
)

// A reporter writes the status of one kind of object: a final state at once,
// passing states at most once in a window.
type reporter struct {
	loop  *kube.Loop
	now   func() time.Time
	delay time.Duration // for which news of passing states are collected

	mu   sync.Mutex
	last map[kube.Key]written
}

// written is what is remembered of the last write of a status.
type written struct {
	at     time.Time
	every  time.Duration // how often it may be written
	final  bool          // the state that was last asked to be written
	urgent bool          // a final state was reached since the last look
	// want is what was written last, and have what the API server made of it.
	want, have [sha256.Size]byte
}

// newReporter makes a reporter. write compares the object's status with what
// it should be and writes it if it differs; it returns the bytes that it
// wrote, 0 for nothing.
func newReporter(name string, delay time.Duration, now func() time.Time, write func(context.Context, kube.Key) (int, error)) *reporter {
	r := &reporter{now: now, delay: delay, last: map[kube.Key]written{}}
	r.loop = kube.NewLoop(name, statusWriters, func(ctx context.Context, key kube.Key) (kube.Next, error) {
		if left := r.look(key); left > 0 {
			return kube.Next{After: left}, nil
		}
		n, err := write(ctx, key)
		switch {
		case err != nil:
			r.failed(key)
		case n > 0:
			r.wrote(key, n)
		}
		return kube.Done, err
	})
	return r
}

// wake asks for a look at an object. final tells that its state is not on its
// way to another.
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
	w.final = final
	r.last[key] = w
	if w.urgent {
		return 0
	}
	left := w.every - r.now().Sub(w.at)
	if !final {
		return max(left, r.delay)
	}
	return left
}

// look is how long a look that has come has to wait after all, because the
// status was written since it was asked for.
func (r *reporter) look(key kube.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	if w.urgent {
		w.urgent = false
		r.last[key] = w
		return 0
	}
	return w.every - r.now().Sub(w.at)
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

// done tells whether there is nothing to write: the status is as it should be,
// or it is what the API server has made of just that before. A server whose
// CRDs are older than ours drops fields; asking again would never end.
func (r *reporter) done(key kube.Key, have, want any) bool {
	if equality.Semantic.DeepEqual(have, want) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	return w.want == meaning(want) && w.have == meaning(have)
}

// answered notes what was written and what the API server made of it.
func (r *reporter) answered(key kube.Key, have, want any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.last[key]
	w.want, w.have = meaning(want), meaning(have)
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
