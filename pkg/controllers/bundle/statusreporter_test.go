package bundle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestReporterWindow(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	r := newReporter("test", pace{settle: 10 * time.Millisecond, timeout: 10 * time.Millisecond}, func() time.Time { return now }, nil)
	key := kube.Key{Name: "x"}
	if left := r.requestDelay(key, false); left != 10*time.Millisecond {
		t.Errorf("the first news waits for others for %s", left)
	}
	r.wrote(key, 1000)
	if left := r.begin(key); left != time.Second {
		t.Errorf("a look that was asked for before the write waits, got %s", left)
	}
	if left := r.requestDelay(key, false); left != time.Second {
		t.Errorf("passing states once a second, got %s", left)
	}
	now = now.Add(300 * time.Millisecond)
	if left := r.requestDelay(key, true); left > 0 {
		t.Errorf("a final state waits %s", left)
	}
	if left := r.requestDelay(key, true); left > 0 {
		t.Errorf("more news must not delay it, got %s", left)
	}
	if left := r.begin(key); left > 0 {
		t.Errorf("nor the window, got %s", left)
	}
	r.wrote(key, 1000)
	if left := r.requestDelay(key, true); left != time.Second {
		t.Errorf("from one final state to another is not urgent, got %s", left)
	}
	for n := range maxFinalWrites {
		r.requestDelay(key, false)
		r.requestDelay(key, true)
		left := r.begin(key)
		if free := n < maxFinalWrites-1; free != (left <= 0) {
			t.Errorf("what flaps is written %d times at once, and no more: %d, %s", maxFinalWrites, n, left)
		}
	}
	now = now.Add(time.Second)
	if left := r.begin(key); left > 0 {
		t.Errorf("but in the next window, got %s", left)
	}
	now = now.Add(time.Hour)
	r.requestDelay(key, false)
	if left := r.requestDelay(key, true); left > 0 {
		t.Errorf("after an hour, got %s", left)
	}
	if left := r.begin(key); left > 0 {
		t.Errorf("after an hour, got %s", left)
	}
	r.wrote(key, 200<<10)
	if left := r.requestDelay(key, false); left != 4*time.Second {
		t.Errorf("200 KiB are written every 4 seconds, got %s", left)
	}
}

// Passing states are written when no more news come, or when they have been
// waited for long enough, and few at a time.
func TestReporterPace(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	r := newReporter("test", pace{settle: time.Second, timeout: 5 * time.Second, spare: 2}, func() time.Time { return now }, nil)
	key := func(n int) kube.Key { return kube.Key{Name: string(rune('a' + n))} }
	look := func(n int, want time.Duration, why string) {
		t.Helper()
		if left := r.begin(key(n)); left != want {
			t.Errorf("%s: want %s, got %s", why, want, left)
		}
	}
	for n := range 4 {
		if left := r.requestDelay(key(n), false); left != time.Second {
			t.Errorf("news are collected for a second, got %s", left)
		}
	}
	now = now.Add(600 * time.Millisecond)
	r.requestDelay(key(0), false)
	now = now.Add(400 * time.Millisecond)
	look(0, 600*time.Millisecond, "more news: from then on")
	look(1, 0, "no more news")
	look(2, 0, "two at once")
	look(3, time.Second, "not three")
	r.returnSpare(key(2)) // there was nothing to write
	look(3, 0, "what is not used is free")
	now = now.Add(time.Second)
	look(0, 0, "one more a second")
	for range 9 {
		r.requestDelay(key(4), false)
		now = now.Add(500 * time.Millisecond)
	}
	look(4, 500*time.Millisecond, "patience ends after 5 seconds")
	now = now.Add(500 * time.Millisecond)
	r.spare, r.spareAt = 0, now
	look(4, 0, "then it costs nothing")
	r.requestDelay(key(4), true)
	look(4, 0, "and neither does a final state, which waits for nothing")
}

// A server with older CRDs drops fields. What it made of a write is not
// written again.
func TestReporterAcceptsPruning(t *testing.T) {
	r := newReporter("test", pace{}, time.Now, nil)
	key := kube.Key{Name: "x"}
	condition := func(generation int64, at string) fleet.BundleStatus {
		return fleet.BundleStatus{Conditions: []fleet.Condition{
			{Type: "Ready", Status: "True", ObservedGeneration: generation, LastUpdateTime: at, LastTransitionTime: at}}}
	}
	want, pruned := condition(3, "2026-08-24T14:00:00Z"), condition(0, "2026-08-24T14:00:00Z")
	if r.isWritten(key, pruned, want) {
		t.Error("not tried yet")
	}
	r.setAnswer(key, pruned, want)
	if !r.isWritten(key, pruned, condition(3, "2026-08-24T14:00:07Z")) {
		t.Error("tried, and this is what comes of it")
	}
	if r.isWritten(key, pruned, condition(4, "2026-08-24T14:00:07Z")) {
		t.Error("something else is wanted now")
	}
}

func TestDiets(t *testing.T) {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml", Content: "x"}}
	want := content.ID(content.Manifest{Resources: b.Spec.Resources})
	for range 2 { // caches do it twice
		stripBundle(b)
		b.ManagedFields = nil
		if id := contentID(b); id != want || b.Spec.Resources != nil {
			t.Errorf("id %s, want %s", id, want)
		}
	}
	e := &base{lists: newInterner()}
	made := func() *fleet.BundleDeployment {
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
		bd.Spec.Options.DefaultNamespace, bd.Spec.Options.ServiceAccount = "x", "y"
		bd.Spec.Options.Helm = &fleet.HelmOptions{ReleaseName: "r", Chart: "c"}
		bd.Status.Resources = []fleet.BundleDeploymentResource{{Kind: "Service", Name: "a", CreatedAt: metav1.Now()}}
		e.stripDeployment(bd)
		return bd
	}
	x, y := made(), made()
	if o := x.Spec.Options; o.ServiceAccount != "" || o.Helm.Chart != "" || o.Helm != y.Spec.Options.Helm {
		t.Error("options are kept, or what names the release is not shared")
	}
	if id := release.IDOf("a", x.Spec.Options); id.String() != "x/r" {
		t.Errorf("the release is %s", id)
	}
	if &x.Status.Resources[0] != &y.Status.Resources[0] {
		t.Error("equal lists are not shared")
	}
}
