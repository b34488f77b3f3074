package reconcile

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 2: 4 * time.Second, 4: 16 * time.Second, 5: 30 * time.Second, 1000: 30 * time.Second} {
		if got := Backoff(2*time.Second, 30*time.Second, failures); got != want {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want)
		}
	}
}
