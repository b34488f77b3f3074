package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// TestDeletionHeld reports what a change may remove without a person, in one
// world, in order.
func TestDeletionHeld(t *testing.T) { synctest.Test(t, deletionHeldBubble) }

func deletionHeldBubble(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.addCluster(fmt.Sprintf("c%d", i+1), map[string]string{"env": "prod"})
	}
	for i := range 2 {
		w.addCluster(fmt.Sprintf("x%d", i+1), map[string]string{"env": "extra"})
	}
	cases := []struct {
		name   string
		report func(*testing.T, *world)
	}{
		{"Below", pruneBelow}, {"Part", prunePart}, {"Held", pruneHeld}, {"TakenBack", pruneTakenBack}, {"Volume", pruneVolume},
		{"Renamed", pruneRenamed}, {"Kept", pruneKept}, {"Budget", pruneBudget}, {"ByHand", deletedOwners},
		{"Targets", targetsHeld}, {"Together", groupHeld}, {"OneVolume", volumeHeld}, {"Restart", heldOverRestart},
	}
	for _, s := range cases {
		t.Log("=== ", s.name)
		s.report(t, w)
	}
}

func pruneBelow(_ *testing.T, w *world) {
	w.readRepo("below")
	w.owned("below", "below-a", "below-b")
	w.asks("below", "below-a")
	w.gone("below-a")
	sees(w, "nothing is said", "", repoHeld(w, "below"))
	w.stays("below-b")
}

// A part of what is asked is not taken for the whole, and marks without a
// request ask for nothing.
func prunePart(_ *testing.T, w *world) {
	w.readRepo("part")
	w.owned("part", "part-a", "part-b", "part-c", "part-d", "part-e")
	mark := w.marks("part-a", "part-b", "part-c", "part-d")
	w.stays("part-a", "part-b", "part-c", "part-d", "part-e")
	update(w, in("part"), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationPrune, mark) })
	sees(w, "held as a whole", "would remove 4 of 5 bundles (budget 3): bundle part-a, bundle part-b, bundle part-c, bundle part-d", repoHeld(w, "part"))
	w.stays("part-a", "part-b", "part-c", "part-d", "part-e")
}

// pruneHeld goes on with "part".
func pruneHeld(t *testing.T, w *world) {
	r := get[*fleet.GitRepo](w, in("part"))
	if got := repoReady(w, "part")(); got != "True" {
		t.Errorf("what is deployed is Ready, got %s", got)
	}
	_, _, lines := withdrawal.ReadText(r.Annotations[fleet.AnnotationDeletionHeld])
	if got := strings.Join(lines, ", "); got != "bundle part-a, bundle part-b, bundle part-c, bundle part-d" {
		t.Errorf("listed: %s", got)
	}
	update(w, in("part-a"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "newer" })
	sees(w, "it goes on being deployed", "0 behind, True", func() string {
		b := get[*fleet.Bundle](w, in("part-a"))
		return fmt.Sprintf("%d behind, %s", b.Generation-b.Status.ObservedGeneration, bundleReady(w, "part-a")())
	})
	update(w, in("part"), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationApproveDeletion, "0123456789abcdef") })
	w.stays("part-a", "part-b", "part-c", "part-d")
	approves[*fleet.GitRepo](w, "part")
	w.gone("part-a", "part-b", "part-c", "part-d")
	sees(w, "nothing is held", "", repoHeld(w, "part"))
	w.stays("part-e")
}

// What is taken back is as if it had never been asked; the next time, another
// approval is needed.
func pruneTakenBack(_ *testing.T, w *world) {
	w.readRepo("back")
	names := []string{"back-a", "back-b", "back-c", "back-d"}
	w.owned("back", names...)
	w.asks("back", names...)
	sees(w, "held", "would remove 4 of 4 bundles (budget 3): bundle back-a, bundle back-b, bundle back-c, bundle back-d", repoHeld(w, "back"))
	update(w, in("back"), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationPrune, "") })
	sees(w, "taken back", "", repoHeld(w, "back"))
	w.stays(names...)
	remove[*fleet.GitRepo](w, in("back")) // no controller reads it here
	for _, name := range names {
		remove[*fleet.Bundle](w, in(name))
	}
	w.gone(names...)
}

func pruneVolume(_ *testing.T, w *world) {
	w.readRepo("volume")
	w.owned("volume", "volume-a", "volume-b")
	w.holds("volume-a", "c2", "PersistentVolumeClaim", "data")
	w.counted("c2")
	w.asks("volume", "volume-a")
	sees(w, "one volume holds it", "would remove 1 of 2 bundles with 1 PersistentVolumeClaim: "+
		"PersistentVolumeClaim pos/data on fleet-default/c2, bundle volume-a", func() string {
		return strings.ReplaceAll(repoHeld(w, "volume")(), " and 1 more", ", bundle volume-a")
	})
	w.stays("volume-a", "volume-b")
	hash, _, _ := withdrawal.ReadText(get[*fleet.GitRepo](w, in("volume")).Annotations[fleet.AnnotationDeletionHeld])
	w.holds("volume-a", "c3", "Namespace", "pos")
	w.counted("c3")
	update(w, in("volume"), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationApproveDeletion, hash) })
	w.until("another list is another approval", func() bool { return strings.Contains(repoHeld(w, "volume")(), "1 Namespace") })
	w.stays("volume-a", "volume-b")
	approves[*fleet.GitRepo](w, "volume")
	w.gone("volume-a")
	w.stays("volume-b")
}

// What another deployment on the same cluster claims does not go.
func pruneRenamed(_ *testing.T, w *world) {
	w.readRepo("rename")
	w.owned("rename", "rename-old", "rename-new")
	for _, c := range []string{"c1", "c2", "c3"} {
		w.holds("rename-old", c, "PersistentVolumeClaim", "moved")
		w.holds("rename-new", c, "PersistentVolumeClaim", "moved")
	}
	w.counted("c1", "c2", "c3")
	w.asks("rename", "rename-old")
	w.gone("rename-old")
	w.stays("rename-new")
}

// keepResources removes nothing, so there is nothing to approve.
func pruneKept(_ *testing.T, w *world) {
	w.readRepo("kept")
	names := []string{"kept-a", "kept-b", "kept-c", "kept-d"}
	w.owned("kept", names...)
	for _, name := range names {
		update(w, in(name), func(b *fleet.Bundle) { b.Spec.KeepResources = true })
	}
	w.settled()
	w.holds("kept-a", "c1", "PersistentVolumeClaim", "data")
	w.asks("kept", names...)
	w.gone(names...)
}

// A budget of one's own counts, that of the GitRepo before that of the workspace.
func pruneBudget(_ *testing.T, w *world) {
	ns := kube.Key{Name: workspace}
	update(w, ns, func(n *corev1.Namespace) { annotate(n, fleet.AnnotationDeletionBudget, "0") })
	w.settle()
	defer func() {
		update(w, ns, func(n *corev1.Namespace) { annotate(n, fleet.AnnotationDeletionBudget, "") })
		w.settle()
	}()
	w.readRepo("budget")
	w.owned("budget", "budget-a", "budget-b")
	w.asks("budget", "budget-a")
	sees(w, "the workspace wants to be asked always", "would remove 1 of 2 bundles (budget 0): bundle budget-a", repoHeld(w, "budget"))
	update(w, in("budget"), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationDeletionBudget, "50%") })
	w.gone("budget-a")
	sees(w, "nothing is held", "", repoHeld(w, "budget"))
}

// Who deletes the owner by hand has said so. What others have in the same places
// is not touched.
func deletedOwners(t *testing.T, w *world) {
	names := []string{"hand-a", "hand-b", "hand-c", "hand-d"}
	w.readRepo("hand")
	w.owned("hand", names...)
	w.holds("hand-a", "c1", "PersistentVolumeClaim", "data")
	place := kube.Key{Namespace: w.agents["c1"].namespace, Name: "hand-a"}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: place.Namespace, Name: place.Name}})
	foreign := kube.Key{Namespace: place.Namespace, Name: "foreign"}
	if _, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).Create(t.Context(), &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: foreign.Namespace, Name: foreign.Name}}); err != nil {
		t.Fatal(err)
	}
	defer remove[*fleet.BundleDeployment](w, foreign)
	for _, name := range names {
		remove[*fleet.Bundle](w, in(name))
	}
	w.gone(names...)
	if get[*corev1.Secret](w, place) == nil || get[*fleet.BundleDeployment](w, foreign) == nil {
		t.Error("what is not Fleet's was removed")
	}
}

// targetsHeld: a Bundle that would leave more than three of few clusters waits;
// undone, it stays; approved, it leaves.
func targetsHeld(_ *testing.T, w *world) {
	target := fleet.BundleTarget{Name: "env", ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}}
	b := bundle("aim", "x", target)
	b.Labels = nil
	w.create(b)
	sees(w, "everywhere", "c1 c2 c3 x1 x2", w.on("aim"))
	sees(w, "Ready", "True", bundleReady(w, "aim"))
	total := w.deployments()
	none := func(b *fleet.Bundle) {
		b.Spec.Targets = []fleet.BundleTarget{where("env", "moon")}
	}
	update(w, in("aim"), none)
	sees(w, "held", fmt.Sprintf("would remove 5 of %d deployments (budget 3): deployment fleet-default/c1, deployment fleet-default/c2 and 3 more", total), func() string {
		return bundleHeld(w, "aim")()
	})
	sees(w, "nothing left", "c1 c2 c3 x1 x2", w.on("aim"))
	update(w, in("aim"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{target} })
	sees(w, "undone", "", bundleHeld(w, "aim"))
	sees(w, "Ready", "True", bundleReady(w, "aim"))
	update(w, in("aim"), none)
	w.until("held again", func() bool { return strings.HasPrefix(bundleHeld(w, "aim")(), "would remove 5 of") })
	approves[*fleet.Bundle](w, "aim")
	sees(w, "gone everywhere", "", w.on("aim"))
	sees(w, "nothing is held", "", bundleHeld(w, "aim"))
	remove[*fleet.Bundle](w, in("aim"))
	w.gone("aim")
}

func (w *world) deployments() int {
	w.t.Helper()
	list, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).List(w.t.Context(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

// groupHeld: what one change takes from several Bundles counts together.
func groupHeld(_ *testing.T, w *world) {
	w.create(&fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "extra"},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "extra"}}}})
	for _, name := range []string{"group-a", "group-b"} {
		b := bundle(name, "x", fleet.BundleTarget{ClusterGroup: "extra"})
		b.Labels = nil
		w.create(b)
		sees(w, "there", "x1 x2", w.on(name))
		sees(w, "Ready", "True", bundleReady(w, name))
	}
	update(w, in("extra"), func(g *fleet.ClusterGroup) {
		g.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "moon"}}
	})
	for _, name := range []string{"group-a", "group-b"} {
		w.until(name+" is held", func() bool {
			return strings.HasPrefix(bundleHeld(w, name)(), "would remove 2 deployments, with others 4 of ")
		})
	}
	approves[*fleet.Bundle](w, "group-a")
	sees(w, "the one that was approved goes", "", w.on("group-a"))
	w.settled()
	sees(w, "and the other stays", "x1 x2", w.on("group-b"))
	update(w, in("extra"), func(g *fleet.ClusterGroup) {
		g.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "extra"}}
	})
	sees(w, "undone", "", bundleHeld(w, "group-b"))
	sees(w, "both are there", "x1 x2", w.on("group-a"))
}

// volumeHeld: a cluster whose deployment has a volume keeps it.
func volumeHeld(_ *testing.T, w *world) {
	w.holds("group-b", "x1", "PersistentVolumeClaim", "data")
	w.counted("x1")
	update(w, in("group-b"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{where("env", "moon")} })
	w.until("held", func() bool { return strings.Contains(bundleHeld(w, "group-b")(), "with 1 PersistentVolumeClaim") })
	sees(w, "nothing has left", "x1 x2", w.on("group-b"))
}

// heldOverRestart: a manager that is restarted asks for the same approval, and
// goes on when it is given.
func heldOverRestart(t *testing.T, w *world) {
	w.readRepo("again")
	names := []string{"again-a", "again-b", "again-c", "again-d"}
	w.owned("again", names...)
	w.asks("again", names...)
	sees(w, "held", "would remove 4 of 4 bundles (budget 3): bundle again-a, bundle again-b, bundle again-c, bundle again-d", repoHeld(w, "again"))
	sees(w, "and Ready", 12, func() int { return get[*fleet.GitRepo](w, in("again")).Status.Summary.Ready })
	before := get[*fleet.GitRepo](w, in("again"))
	was := get[*fleet.Bundle](w, in("group-b"))
	w.halt()
	w.start()
	w.stays(names...)
	sees(w, "still held", "would remove 4 of 4 bundles (budget 3): bundle again-a, bundle again-b, bundle again-c, bundle again-d", repoHeld(w, "again"))
	if now := get[*fleet.GitRepo](w, in("again")); now.ResourceVersion != before.ResourceVersion {
		t.Error("the GitRepo was written although nothing has changed")
	}
	sees(w, "still there", "x1 x2", w.on("group-b"))
	asked := func(b *fleet.Bundle) string { // the same question, whatever else the workspace has meanwhile
		id, _, _ := strings.Cut(b.Annotations[fleet.AnnotationDeletionHeld], " ")
		return id
	}
	if now := get[*fleet.Bundle](w, in("group-b")); asked(now) != asked(was) || asked(now) == "" {
		t.Errorf("the Bundle asks another question although nothing has changed: -before +after\n%s", cmp.Diff(was, now))
	}
	w.halt()
	approves[*fleet.GitRepo](w, "again")
	approves[*fleet.Bundle](w, "group-b")
	w.start()
	w.gone(names...)
	sees(w, "gone", "", w.on("group-b"))
}
