package bundle

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

const (
	pathBundle = "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles/web"
	pathRepo   = "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/gitrepos/shop"
)

// shop is a GitRepo with a word about its protection.
func shop(word string) *fleet.GitRepo {
	return &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "shop", UID: "r", Annotations: map[string]string{fleet.AnnotationProtect: word}, Finalizers: []string{fleet.FinalizerGitRepo},
	}}
}

// A protected Bundle that a person has deleted waits for its own hash, and goes with it.
func TestProtectedBundle(t *testing.T) {
	at := start.Add(-time.Minute)
	for name, c := range map[string]struct{ bundle, repo string }{"Bundle": {"true", ""}, "GitRepo": {"", "true"}} {
		t.Run(name, func(t *testing.T) {
			e, s, b := deletedBundle(t, at, func(s *apiServer, b *fleet.Bundle, _ *fleet.BundleDeployment) {
				b.Annotations = map[string]string{fleet.AnnotationProtect: c.bundle}
				s.objects[pathBundle] = b
			})
			e.table.SetRepo(shop(c.repo))
			for _, want := range []deletionState{held, ordered} {
				if _, err := e.guards.reconcileDeletions(t.Context(), kube.Key{Namespace: "ws"}); err != nil {
					t.Fatal(err)
				}
				d := e.deletions.get(b)
				if d.state != want {
					t.Fatalf("got %+v, want %d", d, want)
				}
				if want == ordered {
					break
				}
				said := condition.Find(e.guards.setDeletionHeld(nil, b), fleet.ConditionDeletionHeld)
				_, hash, ok := strings.Cut(d.message, "fleet approve -n ws bundle/web ")
				if said == nil || said.Reason != fleet.ReasonProtected || !ok {
					t.Fatalf("condition %+v", said)
				}
				approved := b.DeepCopy()
				approved.Annotations[fleet.AnnotationApproveDeletion] = hash
				s.objects[pathBundle] = approved
				e.table.SetBundle(approved)
			}
			if text := strings.Join(s.writes, "\n"); !strings.Contains(text, `"fleet.cattle.io/protect":"false"`) {
				t.Errorf("the approval would be asked for again: %s", text)
			}
			if n := s.orders(); n != 0 {
				t.Errorf("%d deployments were ordered to leave", n)
			}
		})
	}
}

// A protected GitRepo that was deleted keeps its protection, and with it its Bundles,
// until its list is approved, or its workspace holds it.
func TestProtectedRepo(t *testing.T) {
	at := start.Add(-time.Minute)
	cases := map[string]struct {
		why   string
		scene func(*apiServer, *fleet.GitRepo, string)
		goes  bool
	}{
		"Held": {"no approval was given", func(*apiServer, *fleet.GitRepo, string) {}, false},
		"Another": {"that is another list", func(_ *apiServer, r *fleet.GitRepo, _ string) {
			r.Annotations[fleet.AnnotationApproveDeletion] = "0123456789abcdef"
		}, false},
		"Approved": {"a person has", func(_ *apiServer, r *fleet.GitRepo, hash string) {
			r.Annotations[fleet.AnnotationApproveDeletion] = hash
		}, true},
		"Namespace": {"the workspace holds its Bundles", func(s *apiServer, _ *fleet.GitRepo, _ string) { s.ends(pathNamespace, at) }, true},
		"Kind":      {"the same", func(s *apiServer, _ *fleet.GitRepo, _ string) { s.ends(pathRepos, at) }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, s, b := deletedBundle(t, at, func(_ *apiServer, b *fleet.Bundle, _ *fleet.BundleDeployment) { b.DeletionTimestamp = nil })
			repo := shop("true")
			repo.DeletionTimestamp = new(metav1.NewTime(at))
			v := e.guards.judgeRepo(repo, []*fleet.Bundle{b})
			c.scene(s, repo, v.Hash)
			s.objects[pathRepo] = repo
			e.table.SetRepo(repo)
			if _, err := e.prune.reconcilePrune(t.Context(), kube.KeyOf(repo)); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(s.writes, "\n")
			if goes := strings.Contains(text, `"fleet.cattle.io/protect":"false"`); goes != c.goes {
				t.Errorf("%s: it goes: %v\n%s", c.why, goes, text)
			}
			if listed := strings.Contains(text, `"fleet.cattle.io/deletion-held":"`+v.Hash); listed == c.goes {
				t.Errorf("%s: its list was written: %v\n%s", c.why, listed, text)
			}
		})
	}
}

// What a commit drops of a protected GitRepo within the budget goes; a Bundle that is
// protected itself waits.
func TestPruneProtected(t *testing.T) {
	for name, own := range map[string]string{"Repo": "", "Bundle": "true"} {
		t.Run(name, func(t *testing.T) {
			now := start
			e, s := controllersAt(t, &now)
			b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web", UID: "b", Labels: map[string]string{fleet.LabelRepoName: "shop"},
				Annotations: map[string]string{fleet.AnnotationProtect: own}}}
			repo := shop("true")
			mark := withdrawal.PruneMark([]*fleet.Bundle{b})
			b.Annotations[fleet.AnnotationPrune], repo.Annotations[fleet.AnnotationPrune] = mark, mark
			s.objects[pathBundle], s.objects[pathRepo] = b, repo
			e.table.SetBundle(b)
			e.table.SetRepo(repo)
			e.table.SetPlan(kube.KeyOf(b), fleetstate.Plan{Complete: true})
			e.table.Settle()
			if _, err := e.prune.reconcilePrune(t.Context(), kube.KeyOf(repo)); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(s.writes, "\n")
			removed := slices.ContainsFunc(s.writes, func(w string) bool { return strings.HasPrefix(w, "DELETE "+pathBundle) })
			if removed != (own == "") || removed != strings.Contains(text, `"fleet.cattle.io/protect":"false"`) {
				t.Errorf("removed: %v\n%s", removed, text)
			}
		})
	}
}
