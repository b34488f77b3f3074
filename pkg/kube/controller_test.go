package kube

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// running starts a loop and stops it at the end of the test.
func running(t *testing.T, l *Controller) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// What a person has just done overtakes bulk work that waits.
func TestLoopFirstOvertakes(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	started, release := make(chan struct{}), make(chan struct{})
	all := make(chan struct{})
	l := NewController("test", 1, func(_ context.Context, key Key) (Result, error) {
		if key.Name == "blocks" {
			close(started)
			<-release
			return Done, nil
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, key.Name)
		if len(seen) == 3 {
			close(all)
		}
		return Done, nil
	})
	running(t, l)
	l.Add(Key{Name: "blocks"})
	<-started
	l.Add(Key{Name: "bulk-1"})
	l.Add(Key{Name: "bulk-2"})
	l.AddFirst(Key{Name: "bulk-2"}) // waits already: moves up
	l.AddFirst(Key{Name: "edit"})
	close(release)
	<-all
	if diff := cmp.Diff([]string{"bulk-2", "edit", "bulk-1"}, seen); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLoopOutcome(t *testing.T) {
	cases := map[string]struct {
		why   string
		fail  error // of the first turn
		turns int   // how many turns follow a single wake-up
		want  []string
	}{
		"Done":      {why: "nothing to do again", turns: 1, want: []string{"ok"}},
		"Transient": {why: "may pass: tried again", fail: errors.New("away"), turns: 2, want: []string{"error", "ok"}},
		"Wait":      {why: "comes again after its time", fail: reconcile.RequeueError("Later", time.Millisecond, errors.New("not yet")), turns: 2, want: []string{"wait", "ok"}},
		"Permanent": {why: "waits for a user to change something", fail: reconcile.TerminalError("Broken", errors.New("bad")), turns: 1, want: []string{"permanent"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			results := make(chan string, 10)
			first := true
			l := NewController("test", 1, func(context.Context, Key) (Result, error) {
				if first {
					first = false
					return Done, c.fail
				}
				return Done, nil
			})
			l.OnDone(func(result string, _ time.Duration) { results <- result })
			running(t, l)
			l.Add(Key{Name: "a"})
			var got []string
			for range c.turns {
				got = append(got, <-results)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: want %v, got %v", c.why, c.want, got)
			}
			if l.Len() != 0 {
				t.Errorf("%s: %d keys still wait", c.why, l.Len())
			}
		})
	}
}

// One object that makes a loop panic does not stop the others.
func TestLoopSurvivesPanic(t *testing.T) {
	failed, fine := make(chan error, 10), make(chan struct{})
	l := NewController("test", 1, func(_ context.Context, key Key) (Result, error) {
		if key.Name == "broken" {
			panic("no such field")
		}
		close(fine)
		return Done, nil
	})
	l.onError = func(_ Key, err error) {
		select {
		case failed <- err:
		default:
		}
	}
	running(t, l)
	l.Add(Key{Name: "broken"})
	l.Add(Key{Name: "fine"})
	<-fine
	if err := <-failed; err == nil {
		t.Error("the panic was not reported")
	}
}
