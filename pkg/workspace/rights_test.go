package workspace

import (
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestTakenIsStable checks that the same taken name is reported whatever the order
// in which they are found: each new text is an event.
func TestTakenIsStable(t *testing.T) {
	var one, other *nameTaken
	for _, what := range []string{"RoleBinding b", "ClusterRole c", "RoleBinding a"} {
		one = one.first(what)
	}
	for _, what := range []string{"RoleBinding a", "RoleBinding b", "ClusterRole c"} {
		other = other.first(what)
	}
	if one.Error() != other.Error() {
		t.Errorf("%q and %q", one, other)
	}
}

func TestAbsences(t *testing.T) {
	now := time.Now()
	a := newMissingTimes(func() time.Time { return now })
	key := kube.Key{Name: "a"}
	if got := a.missingFor(key); got != 0 {
		t.Errorf("it is missing from now on, got %s", got)
	}
	now = now.Add(time.Minute)
	if got := a.missingFor(key); got != time.Minute {
		t.Errorf("got %s", got)
	}
	a.forget(key)
	if got := a.missingFor(key); got != 0 {
		t.Errorf("one that was there in between is missing since now, got %s", got)
	}
}
