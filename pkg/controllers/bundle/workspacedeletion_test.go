package bundle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

const pathRepos = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gitrepos.fleet.cattle.io"

// A deletion is decided by what is deleted with the Bundle, and by the word of a person.
func TestReconcileDeletions(t *testing.T) {
	at := start.Add(-time.Minute)
	say := func(word string) func(*apiServer, *fleet.Bundle, *fleet.BundleDeployment) {
		return func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) {
			s.ends(pathNamespace, at)
			s.change(pathNamespace, func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{fleet.AnnotationApproveDeletion: word} })
		}
	}
	for name, c := range map[string]struct {
		why   string
		scene func(*apiServer, *fleet.Bundle, *fleet.BundleDeployment)
		want  deletionState
	}{
		"ByHand":        {"a person has deleted the Bundle", nil, ordered},
		"Namespace":     {"it has taken the Bundle along", func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) { s.ends(pathNamespace, at) }, held},
		"Kind":          {"the same", func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) { s.ends(pathBundles, at) }, held},
		"OwnerKind":     {"its GitRepo has, and its kind the GitRepo", func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) { s.ends(pathRepos, at) }, held},
		"OwnerKindGone": {"the same", func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) { delete(s.objects, pathRepos) }, held},
		"WithoutOwner": {"that kind does not matter to it", func(s *apiServer, b *fleet.Bundle, _ *fleet.BundleDeployment) {
			delete(b.Labels, fleet.LabelRepoName)
			s.ends(pathRepos, at)
		}, ordered},
		"Keep":        {"a person keeps everything", say(fleet.ApproveKeep), kept},
		"AnotherHash": {"a person has approved another list", say("0123456789abcdef"), held},
		"KeepsResources": {"nothing would be removed", func(s *apiServer, _ *fleet.Bundle, bd *fleet.BundleDeployment) {
			s.ends(pathNamespace, at)
			bd.Spec.Options.KeepResources = true
		}, kept},
		"ProtectedNot": {"it was approved: the manager has taken the protection off", func(_ *apiServer, b *fleet.Bundle, _ *fleet.BundleDeployment) {
			b.Annotations = map[string]string{fleet.AnnotationProtect: fleet.ProtectNot}
		}, ordered},
		"ProtectedInNamespace": {"its workspace holds it", func(s *apiServer, b *fleet.Bundle, bd *fleet.BundleDeployment) {
			say(fleet.ApproveKeep)(s, b, bd)
			b.Annotations = map[string]string{fleet.AnnotationProtect: "true"}
		}, kept},
		"Ordered": {"it was approved before the manager was started again", func(s *apiServer, _ *fleet.Bundle, bd *fleet.BundleDeployment) {
			s.ends(pathNamespace, at)
			bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "o"}
		}, ordered},
	} {
		t.Run(name, func(t *testing.T) {
			e, s, b := deletedBundle(t, at, c.scene)
			if _, err := e.guards.reconcileDeletions(t.Context(), kube.Key{Namespace: "ws"}); err != nil {
				t.Fatal(err)
			}
			d := e.deletions.get(b)
			if d.state != c.want {
				t.Fatalf("%s: got %d, want %d", c.why, d.state, c.want)
			}
			listed := strings.Contains(strings.Join(s.writes, ""), fleet.AnnotationDeletionHeld)
			if listed != (c.want == held) {
				t.Errorf("%s: the list of the workspace was written: %v", c.why, s.writes)
			}
		})
	}
}

// The hash that the message of a held Bundle names approves it.
func TestHeldDeletionIsApproved(t *testing.T) {
	at := start.Add(-time.Minute)
	e, s, b := deletedBundle(t, at, func(s *apiServer, _ *fleet.Bundle, _ *fleet.BundleDeployment) { s.ends(pathNamespace, at) })
	for _, want := range []deletionState{held, ordered} {
		if _, err := e.guards.reconcileDeletions(t.Context(), kube.Key{Namespace: "ws"}); err != nil {
			t.Fatal(err)
		}
		d := e.deletions.get(b)
		if d.state != want {
			t.Fatalf("got %+v, want %d", d, want)
		}
		_, rest, _ := strings.Cut(d.message, "fleet approve workspace/ws ")
		hash, _, _ := strings.Cut(rest, ",")
		s.change(pathNamespace, func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{fleet.AnnotationApproveDeletion: hash} })
	}
	if since := e.deletions.get(b).since; !since.Equal(start) {
		t.Errorf("agents are waited for since %s", since)
	}
}

// deletedBundle returns controllers with one Bundle that was deleted at a time, and its
// deployment.
func deletedBundle(t *testing.T, at time.Time, scene func(*apiServer, *fleet.Bundle, *fleet.BundleDeployment)) (*eventHandlers, *apiServer, *fleet.Bundle) {
	t.Helper()
	now := start
	e, s := controllersAt(t, &now)
	s.stands(pathRepos, start.Add(-24*time.Hour))
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "web", UID: "b", Labels: map[string]string{fleet.LabelRepoName: "shop"},
		Finalizers: []string{fleet.FinalizerBundle}, DeletionTimestamp: new(metav1.NewTime(at)),
	}}
	bd := deploymentOf("a:b")
	if scene != nil {
		scene(s, b, bd)
	}
	e.withAgent(fleet.ProtocolVersion)
	e.table.SetBundle(b)
	e.table.SetDeployment(bd)
	e.table.SetPlan(kube.KeyOf(b), fleetstate.Plan{Complete: true})
	e.table.Settle()
	return e, s, b
}
