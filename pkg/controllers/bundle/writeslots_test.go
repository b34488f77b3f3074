package bundle

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestSlots(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	tooMany := apierrors.NewTooManyRequests("slow down", 1)
	s := newSlots(func() time.Time { return now })
	enter := func(n int) {
		for range n {
			s.acquire()
		}
	}
	leave := func(n int, took time.Duration, err error) {
		for range n {
			s.release(took, err)
		}
	}
	limit := func(want int, why string) {
		t.Helper()
		if got := int(s.limit); got != want {
			t.Errorf("%s: want %d writers, got %d", why, want, got)
		}
	}
	enter(1)
	leave(1, time.Millisecond, nil)
	limit(32, "one write says nothing about more")
	for range 8 {
		enter(int(s.limit))
		leave(1, time.Millisecond, nil) // the others have no company any more
		leave(s.used, time.Millisecond, nil)
	}
	limit(32, "less than one more in a round of eight")
	for range 2000 {
		enter(int(s.limit) - s.used)
		leave(1, time.Millisecond, nil)
	}
	limit(64, "prompt answers")
	now = now.Add(time.Second)
	enter(int(s.limit) - s.used)
	leave(20, 100*time.Millisecond, tooMany)
	limit(44, "twenty refusals of the same moment are one")
	now = now.Add(6 * time.Second)
	leave(1, time.Millisecond, nil)
	leave(1, 5500*time.Millisecond, nil)
	limit(31, "a sluggish answer")
	for range 20 {
		now = now.Add(time.Second)
		leave(1, time.Millisecond, tooMany)
	}
	limit(16, "never fewer")
}

func TestSlotsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(time.Now)
		entered := false
		for range firstWriters {
			s.acquire()
		}
		go func() { s.acquire(); entered = true }()
		synctest.Wait()
		if entered {
			t.Error("more writers than the limit")
		}
		s.release(time.Millisecond, nil)
		synctest.Wait()
		if !entered {
			t.Error("no writer entered when there was room")
		}
	})
}

// A turn goes on while answers are pending, and reports each answer once.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newSlots(time.Now).newTurn()
		var reported []string
		write := func(name string, takes time.Duration, err error) {
			turn.write(func() error { time.Sleep(takes); return err }, func(err error) error {
				reported = append(reported, name)
				return err
			})
		}
		write("slow", 10*slice, nil)
		write("quick", slice/2, errors.New("refused"))
		time.Sleep(2 * slice)
		if !turn.isOver() {
			t.Error("a slice has its end")
		}
		if err := turn.handleAnswers(); err == nil || err.Error() != "refused" {
			t.Errorf("want the answer that has come, got %v", err)
		}
		turn.renew()
		if turn.isOver() {
			t.Error("another slice")
		}
		write("last", 0, nil)
		if err := turn.wait(); err != nil {
			t.Errorf("an error is returned once, got %v", err)
		}
		if diff := cmp.Diff([]string{"quick", "last", "slow"}, reported); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBatch(t *testing.T) {
	b := newBatch(2)
	b.acquire(replace)
	b.acquire(create)
	b.acquire(create)
	if len(b) != 2 {
		t.Errorf("two creations are under way, got %d", len(b))
	}
	b.acquire(replace) // does not wait
	b.release(replace)
	b.release(create)
	b.acquire(create)
	for _, e := range []writeKind{create, replace} {
		newBatch(0).acquire(e) // no limit: does not wait
		newBatch(0).release(e)
	}
}
