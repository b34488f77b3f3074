package bundle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

func idOf(text string) release.ID { return release.ParseID(text) }

// A version of another release is not written before it may replace the one that
// is there; the deployment stays as it is, and others do not wait for its room.
func TestDecideReplaced(t *testing.T) {
	const held = " (release default/app becomes other/app when that is within the deletion budget, or approved: until then the old one stays as it is)\n"
	n := intstr.FromInt32(1)
	moved := func(b *fleet.Bundle) {
		b.Spec.DefaultNamespace = "other"
		b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &n}
	}
	volume := func(s *snapshot, i int) {
		s.deployments[s.candidates[i].Key].Status.Resources = []fleet.BundleDeploymentResource{{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data"}}
	}
	cases := map[string]struct {
		why      string
		play     func(s *snapshot)
		want     string
		replaced int
	}{
		"Alone": {"a Bundle without GitRepo that has no volume moves on", nil, "c0000 replace\nc0001 stage (waits for room: 1 may be unavailable)\n", 0},
		"AloneVolume": {"one cluster has a volume, and keeps it; the other does not wait for it", func(s *snapshot) { volume(s, 0) },
			"c0000 -" + held + "c0001 replace\n", 1},
		"Owned": {"whether the whole repository moves is judged first", func(s *snapshot) { s.replacing.byRepo = true },
			"c0000 -" + held + "c0001 -" + held, 2},
		"Permitted": {"it was judged", func(s *snapshot) {
			s.replacing.byRepo = true
			s.replacing.permitted = map[kube.Key]release.ID{s.candidates[0].Key: idOf("other/app")}
		}, "c0000 replace\nc0001 -" + held, 2},
		"PermittedOther": {"something else was judged", func(s *snapshot) {
			s.replacing.byRepo = true
			s.replacing.permitted = map[kube.Key]release.ID{s.candidates[0].Key: idOf("third/app")}
		}, "c0000 -" + held + "c0001 -" + held, 2},
		"Staged": {"what is staged was judged before the manager was restarted", func(s *snapshot) {
			s.replacing.byRepo = true
			for _, bd := range s.deployments {
				bd.Spec.StagedDeploymentID = decide(s).pairs[0].id
			}
		}, "c0000 replace\nc0001 stage (waits for room: 1 may be unavailable)\n", 0},
		"Off": {"the budget is off", func(s *snapshot) { volume(s, 0); s.replacing.unlimited, s.replacing.byRepo = true, true },
			"c0000 replace\nc0001 stage (waits for room: 1 may be unavailable)\n", 0},
		"Offline": {"what a cluster has that is away is not known until it is back", func(s *snapshot) {
			s.candidates[0].Offline = true
			s.deployments[s.candidates[0].Key].Status.AppliedDeploymentID = ""
		}, "c0000 - (release default/app becomes other/app when its agent has reported what it has deployed so far)\nc0001 replace\n", 0},
		"Revived": {"its removal was decided before", func(s *snapshot) {
			volume(s, 0)
			s.deployments[s.candidates[0].Key].Annotations[fleet.AnnotationWithdrawn] = "b7"
		}, "c0000 replace\nc0001 stage (waits for room: 1 may be unavailable)\n", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := scene(t, 2, nil).deployed(t, true).changed(t, moved)
			if c.play != nil {
				c.play(s)
			}
			d := decide(s)
			if diff := cmp.Diff(c.want, linesOf(d)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if len(d.replaced) != c.replaced {
				t.Errorf("%s: %d are to be judged, want %d", c.why, len(d.replaced), c.replaced)
			}
		})
	}
}

// What a person has only labelled, or a change of values, costs no comparison of
// releases, and what was compared is remembered while it is held.
func TestReleasesAreComparedOnce(t *testing.T) {
	s := scene(t, 1, nil).deployed(t, true)
	if d := decide(s); d.pairs[0].release != (release.ID{}) {
		t.Error("nothing is about to change")
	}
	s = s.changed(t, func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "other" })
	s.replacing.byRepo = true
	d := decide(s)
	if s.versions = d.versions; len(s.versions) != 1 {
		t.Fatalf("%d are remembered", len(s.versions))
	}
	if d = decide(s); d.pairs[0].version != nil || len(d.replaced) != 1 {
		t.Error("worked out twice")
	}
}

// The agent's own release moves by an order of the manager itself.
func TestAgentMoves(t *testing.T) {
	agent := func(namespace string) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) { b.Name, b.Spec.DefaultNamespace = "fleet-agent-c0000", namespace }
	}
	s := scene(t, 1, agent("a")).deployed(t, true).changed(t, agent("b"))
	s.replacing.byRepo = true
	if got := linesOf(decide(s)); got != "c0000 replace\n" {
		t.Error(got)
	}
}

// A permitted replacement stays permitted while it is wanted. When it was not
// wanted meanwhile, it is judged again.
func TestBudgetReplaces(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	key, p := kube.Key{Namespace: "w", Name: "a"}, newDeletionBudget()
	one := func(cluster, to string) *replaced {
		return &replaced{withdrawal.Replacement{To: idOf(to)}, kube.Key{Namespace: "w", Name: cluster}, &fleet.BundleDeployment{}}
	}
	open := func(want int, begun time.Time, why string) {
		t.Helper()
		if r := p.replacementsOf(key); len(r.open) != want || want > 0 && !r.since.Equal(begun) {
			t.Errorf("%s: %d since %s", why, len(r.open), r.since)
		}
	}
	if !p.setReplaced(key, []*replaced{one("c1", "b/a"), one("c2", "b/a")}, "c1", now) {
		t.Error("two are to be judged")
	}
	later := now.Add(time.Second)
	if p.setReplaced(key, []*replaced{one("c1", "b/a"), one("c2", "b/a")}, "c1", later) {
		t.Error("they are the same")
	}
	open(2, now, "since then")
	if !p.setReplaced(key, []*replaced{one("c1", "c/a"), one("c2", "b/a")}, "c1", later) {
		t.Error("another release is another change")
	}
	open(2, later, "it has just begun")
	p.permit(key, []*replaced{one("c1", "c/a")})
	open(1, later, "one is left")
	if p.setReplaced(key, []*replaced{one("c1", "c/a"), one("c2", "b/a")}, "c1", later) || p.permittedReleases(key)[kube.Key{Namespace: "w", Name: "c1"}] != idOf("c/a") {
		t.Error("what is permitted and waits for its turn stays permitted")
	}
	p.setReplaced(key, []*replaced{one("c2", "b/a")}, "c1", later)
	p.setReplaced(key, []*replaced{one("c1", "c/a"), one("c2", "b/a")}, "c1", later)
	open(2, later, "what was not wanted meanwhile is judged again")
	if !p.setReplaced(key, nil, "c1", later) {
		t.Error("that nothing is held any more is news")
	}
	open(0, later, "nothing is wanted")
}
