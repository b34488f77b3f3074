package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/crash"
)

func TestAge(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s":  -time.Minute,
		"41s": 41*time.Second + 900*time.Millisecond,
		"1m":  time.Minute,
		"59m": time.Hour - time.Second,
		"23h": 24*time.Hour - time.Second,
		"19d": 19 * 24 * time.Hour,
		"1y":  400 * 24 * time.Hour,
	} {
		if got := Age(d); got != want {
			t.Errorf("%v: want %s, got %s", d, want, got)
		}
	}
}

func TestClock(t *testing.T) {
	here := now.In(time.FixedZone("here", 2*3600))
	if got := Clock(now, here); got != "16:10:44" {
		t.Errorf("today is a time on the clock here, got %q", got)
	}
	if got := Clock(now.Add(-24*time.Hour), here); got != "2026-08-23 16:10" {
		t.Errorf("another day has its date, got %q", got)
	}
}

func TestElapsed(t *testing.T) {
	for want, d := range map[string]time.Duration{" 0:03": 3 * time.Second, "12:00": 12 * time.Minute, "1:00:01": time.Hour + time.Second} {
		if got := Elapsed(d); got != want {
			t.Errorf("%v: want %q, got %q", d, want, got)
		}
	}
}

func TestParseStates(t *testing.T) {
	got, err := ParseStates([]string{"errapplied", "Offline"})
	if diff := cmp.Diff([]fleet.BundleState{fleet.ErrApplied, fleet.Offline}, got); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if _, err := ParseStates([]string{"NotRedy"}); err == nil || !strings.Contains(err.Error(), "did you mean NotReady?") {
		t.Errorf("want the nearest word, got %v", err)
	}
	if _, err := ParseStates([]string{"x"}); err == nil || !strings.Contains(err.Error(), "there are ErrApplied") {
		t.Errorf("want all words, got %v", err)
	}
}

func TestSelection(t *testing.T) {
	if s := (Selection{}); !s.Any() || !s.Has(fleet.Ready) || !s.Has("") {
		t.Error("the zero selection picks all")
	}
	if s := (Selection{NotReady: true}); s.Has(fleet.Ready) || !s.Has(fleet.Offline) {
		t.Error("not-ready is all but Ready")
	}
}

// A brake that was written can be read again; anything but "true" is off.
func TestBrake(t *testing.T) {
	at := now.Add(-time.Minute)
	b := GlobalPause{On: true, Reason: "incident", By: "ana", Since: &at}
	if diff := cmp.Diff(b, ParseGlobalPause(b.Data())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, want := b.Text(now), "suspended since 14:09:44 by ana: incident"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	for _, data := range []map[string]string{nil, {"suspended": "false", "reason": "x"}, {"suspended": "yes"}} {
		if ParseGlobalPause(data).On {
			t.Errorf("%v is off", data)
		}
	}
	if b := ParseGlobalPause(map[string]string{"suspended": "true", "since": "yesterday"}); !b.On || b.Since != nil {
		t.Error("a time that cannot be read does not take the brake off")
	}
}

func TestReadManager(t *testing.T) {
	lease := func(renewed time.Duration, holder string) *coordinationv1.Lease {
		seconds := int32(30)
		at, acquired := metav1.NewMicroTime(now.Add(-renewed)), metav1.NewMicroTime(now.Add(-19*24*time.Hour))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, RenewTime: &at, AcquireTime: &acquired, LeaseDurationSeconds: &seconds,
		}}
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationVersion: "v0.3.1"}}}
	cases := map[string]struct {
		why    string
		config *corev1.ConfigMap
		lease  *coordinationv1.Lease
		want   string
		gone   bool
	}{
		"Leads":    {"its lease is fresh", config, lease(10*time.Second, "x"), "manager v0.3.1, leader for 19d", false},
		"Gone":     {"its lease is older than two terms", config, lease(6*time.Minute, "x"), "manager v0.3.1 does not run, last sign of life 6m ago", true},
		"GivenUp":  {"it gave the lease back when it ended", config, lease(time.Second, ""), "manager v0.3.1 does not run, last sign of life 1s ago", true},
		"NoRights": {"without the right to read leases only the version is shown", config, nil, "manager v0.3.1", false},
		"Nothing":  {"nothing can be seen", nil, nil, "", false},
	}
	died := lease(10*time.Second, "x")
	for _, ago := range []time.Duration{5, 4, 3, 2, 1} {
		record := crash.Add(died.Annotations[fleet.AnnotationCrashes], now.Add(-ago*time.Minute))
		died.Annotations = map[string]string{fleet.AnnotationCrashes: record}
	}
	loops := ReadManager(config, nil, died, now)
	if got, want := loops.Warning(now), "fleet-controller has died 5 times in 5m, the last time 1m ago; what follows may be out of date"; got != want {
		t.Errorf("a manager that dies again and again: want %q, got %q", want, got)
	}
	if got := Summarize(Fleet{}, loops, now); len(got.Attention) != 1 || got.Attention[0].Reason != ReasonCrashes || got.Settled() {
		t.Errorf("it needs attention: %v", got.Attention)
	}
	if gone := ReadManager(config, nil, lease(6*time.Minute, "x"), now); gone.Warning(now) != "the manager has not been heard since 2026-08-24T14:04:44Z (6m ago); what follows is as of then" ||
		gone.AsOf(now) != "as of 6m ago" {
		t.Errorf("a manager that is gone: %q, %q", gone.Warning(now), gone.AsOf(now))
	}
	if got, want := (Manager{Hidden: true}).Warning(now), "whether the manager runs is not known: what follows may be old"; got != want {
		t.Errorf("a manager that the user may not see: want %q, got %q", want, got)
	}
	if well := ReadManager(config, nil, lease(0, "x"), now); well.Warning(now) != "" || well.AsOf(now) != "" {
		t.Errorf("a manager that works needs no warning: %q", well.Warning(now))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := ReadManager(c.config, nil, c.lease, now)
			if got := m.Text(now); got != c.want || m.IsGone() != c.gone {
				t.Errorf("%s: want %q and gone %v, got %q and %v", c.why, c.want, c.gone, got, m.IsGone())
			}
			if got := Summarize(Fleet{}, m, now); (len(got.Attention) > 0) != c.gone {
				t.Errorf("%s: a manager that is gone needs attention, and no other: %v", c.why, got.Attention)
			}
		})
	}
}

func TestOwnLabels(t *testing.T) {
	c := cluster("local", func(c *fleet.Cluster) {
		c.Labels = map[string]string{
			"name": "local", "ring": "2", "env": "prod", "example.com/team": "shop",
			fleet.LabelBucket: "3c", "management.cattle.io/cluster-name": "x", "kubernetes.io/os": "linux",
		}
	})
	if got, want := OwnLabels(c), "env=prod,example.com/team=shop,ring=2"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestExpiry(t *testing.T) {
	token := func(ttl time.Duration, at time.Time) *fleet.ClusterRegistrationToken {
		expires := metav1.NewTime(at)
		return &fleet.ClusterRegistrationToken{
			Spec:   fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: ttl}},
			Status: fleet.ClusterRegistrationTokenStatus{Expires: &expires},
		}
	}
	for want, tok := range map[string]*fleet.ClusterRegistrationToken{
		"never":  token(0, now), // the API sets expires for a ttl of 0 too
		"in 3h":  token(time.Hour, now.Add(3*time.Hour+time.Minute)),
		"3h ago": token(time.Hour, now.Add(-3*time.Hour)),
		"":       {Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: time.Hour}}},
	} {
		if got := Expiry(tok, now); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestList(t *testing.T) {
	if got := List([]string{"a", "b"}, 2); got != "a, b" {
		t.Errorf("got %q", got)
	}
	if got := List([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Errorf("got %q", got)
	}
}

func TestChanges(t *testing.T) {
	before := NewSnapshot(Fleet{
		Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
		Bundles:  []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.ErrApplied, "no")))},
	}, Manager{}, now)
	after := NewSnapshot(Fleet{
		Clusters: []*fleet.Cluster{cluster("a", away(time.Minute)), cluster("b")},
		Bundles:  []*fleet.Bundle{bundle("web", on(2, bad("b", fleet.Modified, "changed")))},
		Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
			r.Spec.Paused, r.Annotations = true, map[string]string{fleet.AnnotationPausedBy: "ana", fleet.AnnotationPauseReason: "incident 4711"}
		})},
	}, Manager{}, now)
	want := []EventLine{
		{"needs", "Modified web on b: changed"},
		{"solved", "ErrApplied web on a: no"},
		{"away", "a: last seen 14:09:44"},
		{"back", "b"},
		{"pause", "repo app by ana: incident 4711"},
	}
	if diff := cmp.Diff(want, Changes(before, after, now)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Changes(after, before, now); got[len(got)-1] != (EventLine{"resume", "repo app"}) {
		t.Errorf("got %v", got)
	}
	if got := Changes(after, after, now); len(got) > 0 {
		t.Errorf("nothing has changed, got %v", got)
	}
}
