package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Timeout is how long a state may take to appear on a machine that does nothing else. A
// busy machine has more time (poll). A test that passes never waits for it.
const Timeout = 90 * time.Second

// pollEvery is how often a test looks.
const pollEvery = 50 * time.Millisecond

// Eventually returns when look finds want, and fails the test with the last
// difference if that does not happen in time.
func Eventually[T any](w *World, what string, look func() T, want T) {
	w.t.Helper()
	Within(w, Timeout, what, look, want)
}

// Within is Eventually with a limit of its own.
func Within[T any](w *World, limit time.Duration, what string, look func() T, want T) {
	w.t.Helper()
	var diff string
	ok := poll(limit, func() bool {
		diff = cmp.Diff(want, look())
		return diff == ""
	})
	if !ok {
		w.t.Fatalf("not within %s: %s\n-want +got\n%s", limit, what, diff)
	}
}

// Until returns when pending returns nothing, and fails the test with what
// it returned last if that does not happen in time.
func (w *World) Until(what string, pending func() string) {
	w.t.Helper()
	var last string
	ok := poll(Timeout, func() bool {
		last = pending()
		return last == ""
	})
	if !ok {
		w.t.Fatalf("not within %s: %s: %s", Timeout, what, last)
	}
}

// Throughout fails the test as soon as look finds something else than want
// before the time is over.
func Throughout[T any](w *World, d time.Duration, what string, look func() T, want T) {
	w.t.Helper()
	var diff string
	end := time.NewTimer(d)
	defer end.Stop()
	broken := pollUntil(end.C, func() bool {
		diff = cmp.Diff(want, look())
		return diff != ""
	})
	if broken {
		w.t.Fatalf("not for %s: %s\n-want +got\n%s", d, what, diff)
	}
}

// Wait returns when done says so, and fails the test if that takes longer than limit.
func Wait(t testing.TB, limit time.Duration, what string, done func() bool) {
	t.Helper()
	if !poll(limit, done) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// poll asks at once, and then again and again until done, or until it has asked as often
// as fits into limit. It reports whether it was done. On a busy machine a question takes
// longer than pollEvery, and all questions together longer than limit: the programs that
// the test waits for are as slow.
func poll(limit time.Duration, done func() bool) bool {
	questions := int(limit/pollEvery) + 1
	return pollUntil(nil, func() bool {
		questions--
		return done() || questions <= 0
	}) && (questions > 0 || done())
}

// pollUntil asks at once, and then every pollEvery, until done or until end is ready.
// It reports whether it was done.
func pollUntil(end <-chan time.Time, done func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-end:
			return done()
		case <-tick.C:
		}
	}
}

// Fastest is how long something takes: the first time that is within a limit, and else
// the shortest of three, since the machine may have done something else meanwhile. Who
// is slow by itself is slow each time.
func Fastest(limit time.Duration, f func(try int) time.Duration) time.Duration {
	best := f(0)
	for try := 1; try < 3 && best > limit; try++ {
		best = min(best, f(try))
	}
	return best
}
