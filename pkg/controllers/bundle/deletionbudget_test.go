package bundle

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func leavers(from, to int) []*staleDeployment {
	var out []*staleDeployment
	for i := from; i < to; i++ {
		l := &staleDeployment{bd: &fleet.BundleDeployment{}}
		l.bd.UID = types.UID(fmt.Sprint(i))
		out = append(out, l)
	}
	return out
}

// What begins to leave within a minute is one change, however many Bundles it
// concerns and whether it waits or was let go.
func TestBudget(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	a, b, far := kube.Key{Namespace: "w", Name: "a"}, kube.Key{Namespace: "w", Name: "b"}, kube.Key{Namespace: "v", Name: "a"}
	p := newDeletionBudget()
	also := func(key kube.Key, since time.Time, want int, why string) {
		t.Helper()
		if got := p.alsoWithdrawn(key, since); got != want {
			t.Errorf("%s: want %d, got %d", why, want, got)
		}
	}
	_, _, fresh, since := p.updateWithdrawals(a, leavers(0, 2), now)
	if len(fresh) != 2 || !since.Equal(now) {
		t.Fatalf("both are to be judged: %d, %s", len(fresh), since)
	}
	p.updateWithdrawals(far, leavers(0, 9), now)
	also(a, since, 0, "another workspace is another matter")
	p.updateWithdrawals(b, leavers(10, 13), now.Add(30*time.Second))
	also(a, since, 3, "what waits beside it is of the same change")
	if _, _, _, again := p.updateWithdrawals(a, leavers(0, 3), now.Add(time.Second)); !again.Equal(since) {
		t.Errorf("it began at %s, not %s", since, again)
	}
	also(b, now.Add(30*time.Second), 3, "and the other way round")

	p.releaseDeployments(a, leavers(0, 3), false, now.Add(2*time.Second))
	free, approved, fresh, _ := p.updateWithdrawals(a, leavers(0, 4), now.Add(3*time.Second))
	if len(free) != 3 || len(approved) != 0 || len(fresh) != 1 {
		t.Errorf("what was let go is not judged again: %d, %d, %d", len(free), len(approved), len(fresh))
	}
	also(b, now.Add(30*time.Second), 4, "what was let go counts on")
	also(b, now.Add(3*time.Minute), 0, "but not for a later change")

	p.releaseDeployments(a, leavers(3, 4), true, now.Add(40*time.Second))
	if _, approved, _, _ = p.updateWithdrawals(a, leavers(2, 4), now.Add(41*time.Second)); len(approved) != 1 {
		t.Errorf("what a person has approved hurries: %d", len(approved))
	}
	also(b, now.Add(30*time.Second), 4, "for what waited already, an approval of others is a part of the change")
	also(b, now.Add(45*time.Second), 3, "what begins afterwards is another")
	if _, _, fresh, _ = p.updateWithdrawals(a, leavers(0, 1), now.Add(42*time.Second)); len(fresh) != 1 {
		t.Error("what was wanted meanwhile is judged again")
	}
	p.updateWithdrawals(a, nil, now.Add(43*time.Second))
	p.forget(b)
	if len(p.changes) != 1 {
		t.Errorf("nothing is left but the other workspace: %d", len(p.changes))
	}
}

// Payments do not pile up.
func TestBudgetForgets(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	p, key := newDeletionBudget(), kube.Key{Namespace: "w", Name: "a"}
	for i := range 1000 {
		at := now.Add(time.Duration(i) * time.Second)
		list := leavers(i, i+1)
		p.updateWithdrawals(key, list, at)
		p.releaseDeployments(key, list, false, at)
	}
	if n := len(p.payments["w"]); n > 62 {
		t.Errorf("%d payments are kept", n)
	}
}
