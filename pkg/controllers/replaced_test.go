package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// TestReplacementHeld plays, in one world and in order, what a change of releases
// may remove without a person.
func TestReplacementHeld(t *testing.T) { synctest.Test(t, replacementHeldBubble) }

func replacementHeldBubble(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.addCluster(fmt.Sprintf("c%d", i+1), map[string]string{"env": "prod"})
	}
	steps := []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"One", replaceOne}, {"Volume", replaceVolume}, {"Everything", replaceEverything}, {"WithRemovals", replaceAndRemove},
		{"Label", replaceByLabel}, {"Alone", replaceAlone}, {"Namespace", namespaceHeld},
	}
	for _, s := range steps {
		t.Log("=== ", s.name)
		s.play(t, w)
	}
}

// commits plays the reader of repositories: it writes Bundles as a commit has them,
// and then the commit itself.
func (w *world) commits(repo, commit string, change func(*fleet.BundleSpec), names ...string) {
	w.t.Helper()
	for _, name := range names {
		update(w, in(name), func(b *fleet.Bundle) { b.Labels[fleet.LabelCommit] = commit; change(&b.Spec) })
	}
	w.wrote(repo, commit)
}

// wrote plays the reader of repositories: it has written all Bundles of a commit.
func (w *world) wrote(repo, commit string) {
	w.t.Helper()
	own, err := kube.StoreOf[*fleet.Bundle](w.admin).List(w.t.Context(), workspace, fleet.LabelRepoName+"="+repo)
	if err != nil {
		w.t.Fatal(err)
	}
	setStatus(w, in(repo), func(r *fleet.GitRepo) {
		next := fleet.Reading{Commit: commit, Generation: r.Status.ObservedGeneration, Complete: true}
		r.Status.Commit, r.Status.Reading = commit, reading.Next(r.Status.Reading, next, reading.Commits(r, own), nil)
	})
}

func to(namespace string) func(*fleet.BundleSpec) {
	return func(s *fleet.BundleSpec) { s.TargetNamespace = namespace }
}

// namespaces are those that the current versions of a Bundle are for, by cluster.
func (w *world) namespaces(name string) func() string {
	return func() string {
		w.t.Helper()
		var out []string
		for _, c := range []string{"c1", "c2", "c3"} {
			if bd := w.deployment(name, c); bd != nil {
				out = append(out, c+"="+bd.Spec.Options.TargetNamespace)
			}
		}
		return strings.Join(out, " ")
	}
}

// heldList is all that is held of a repository, once its condition says so, too.
func (w *world) heldList(repo string) func() string {
	return func() string {
		w.t.Helper()
		if text := repoHeld(w, repo)(); text == "" || text == "half said" {
			return text
		}
		_, summary, lines := withdrawal.ReadText(get[*fleet.GitRepo](w, in(repo)).Annotations[fleet.AnnotationDeletionHeld])
		return summary + ": " + strings.Join(lines, ", ")
	}
}

// specs are the specifications of all deployments of a Bundle.
func (w *world) specs(name string) []fleet.BundleDeploymentSpec {
	w.t.Helper()
	var out []fleet.BundleDeploymentSpec
	for _, c := range []string{"c1", "c2", "c3"} {
		out = append(out, w.deployment(name, c).Spec)
	}
	return out
}

// One Bundle without volumes moves, as it always did.
func replaceOne(_ *testing.T, w *world) {
	w.readRepo("one")
	w.owned("one", "one-a", "one-b")
	w.commits("one", "c2", to("till"), "one-a")
	sees(w, "it has moved", "c1=till c2=till c3=till", w.namespaces("one-a"))
	sees(w, "nothing is said", "", repoHeld(w, "one"))
}

// A Bundle with a volume stays where it is, whatever else the same commit brings.
func replaceVolume(t *testing.T, w *world) {
	w.readRepo("vol")
	w.owned("vol", "vol-a", "vol-b")
	w.holds("vol-a", "c2", "PersistentVolumeClaim", "data")
	w.counted("c2")
	before := w.specs("vol-a")
	w.commits("vol", "c2", to("till"), "vol-a", "vol-b")
	sees(w, "the volume is held", "would replace the release of 1 of 2 bundles with 1 PersistentVolumeClaim: "+
		"PersistentVolumeClaim pos/data on fleet-default/c2, bundle vol-a: release default/vol-a becomes till/vol-a", w.heldList("vol"))
	sees(w, "the other has moved", "c1=till c2=till c3=till", w.namespaces("vol-b"))
	w.until("the Bundle says what it waits for", func() bool {
		return strings.Contains(bundleReady(w, "vol-a")(), "release default/vol-a becomes till/vol-a when that is within the deletion budget, or approved")
	})
	w.halt()
	w.start()
	w.settled()
	if diff := cmp.Diff(before, w.specs("vol-a")); diff != "" {
		t.Errorf("it was touched\n%s", diff)
	}
	w.commits("vol", "c3", to(""), "vol-a")
	sees(w, "taken back", "", repoHeld(w, "vol"))
	sees(w, "Ready", "True", bundleReady(w, "vol-a"))
	if diff := cmp.Diff(before, w.specs("vol-a")); diff != "" {
		t.Errorf("what was taken back has left a trace\n%s", diff)
	}
	w.commits("vol", "c4", to("till"), "vol-a")
	w.until("held again", func() bool { return repoHeld(w, "vol")() != "" })
	approves[*fleet.GitRepo](w, "vol")
	sees(w, "it has moved", "c1=till c2=till c3=till", w.namespaces("vol-a"))
	sees(w, "nothing is held", "", repoHeld(w, "vol"))
}

// A commit that empties every fleet.yaml moves nothing; what is new in it is
// deployed; a manager that is restarted asks for the same approval.
func replaceEverything(t *testing.T, w *world) {
	w.readRepo("all")
	names := []string{"all-a", "all-b", "all-c", "all-d"}
	w.owned("all", names...)
	w.commits("all", "c2", to("shop"), names[:2]...)
	for _, name := range names[:2] {
		sees(w, name+" has moved", "c1=shop c2=shop c3=shop", w.namespaces(name))
		sees(w, name+" is Ready", "True", bundleReady(w, name))
	}
	w.commits("all", "c3", to("shop"), names[2:]...)
	w.until("the rest has moved", func() bool { // within a minute it counts with what has moved before
		if strings.HasPrefix(repoHeld(w, "all")(), "would") {
			approves[*fleet.GitRepo](w, "all")
		}
		return w.namespaces("all-c")()+" "+w.namespaces("all-d")() == "c1=shop c2=shop c3=shop c1=shop c2=shop c3=shop"
	})
	for _, name := range names {
		sees(w, name+" is Ready", "True", bundleReady(w, name))
	}
	sees(w, "nothing is held", "", repoHeld(w, "all"))

	b := bundle("all-new", "x", where("env", "prod"))
	b.Labels[fleet.LabelRepoName], b.Labels[fleet.LabelCommit] = "all", "c4"
	w.create(b)
	w.commits("all", "c4", func(s *fleet.BundleSpec) { s.TargetNamespace, s.Resources[0].Content = "", "new" }, names...)
	const held = "would replace the release of 4 of 5 bundles (budget 3): bundle all-a: release shop/all-a becomes default/all-a, " +
		"bundle all-b: release shop/all-b becomes default/all-b, bundle all-c: release shop/all-c becomes default/all-c, " +
		"bundle all-d: release shop/all-d becomes default/all-d"
	sees(w, "held", held, w.heldList("all"))
	sees(w, "what is new is there", "True", bundleReady(w, "all-new"))
	hash := func() string {
		hash, _, _ := withdrawal.ReadText(get[*fleet.GitRepo](w, in("all")).Annotations[fleet.AnnotationDeletionHeld])
		return hash
	}
	before := hash()
	w.halt()
	w.start()
	w.settled()
	for _, name := range names {
		if got := w.namespaces(name)(); got != "c1=shop c2=shop c3=shop" {
			t.Errorf("%s has moved: %s", name, got)
		}
	}
	sees(w, "still held", held, w.heldList("all"))
	if now := hash(); now != before {
		t.Errorf("another question is asked: %s, %s", before, now)
	}
	w.halt()
	approves[*fleet.GitRepo](w, "all")
	w.start()
	for _, name := range names {
		sees(w, name+" has moved", "c1= c2= c3=", w.namespaces(name))
	}
	sees(w, "nothing is held", "", repoHeld(w, "all"))
}

// What a commit removes and what it replaces is one list.
func replaceAndRemove(_ *testing.T, w *world) {
	w.readRepo("both")
	names := []string{"both-a", "both-b", "both-c", "both-d"}
	w.owned("both", names...)
	for _, name := range names[:2] {
		update(w, in(name), func(b *fleet.Bundle) { b.Labels[fleet.LabelCommit] = "c2"; b.Spec.TargetNamespace = "till" })
	}
	w.asks("both", names[2:]...) // before the commit is known to be written: both wait for it
	w.wrote("both", "c2")
	sees(w, "held", "would remove 2 and replace the release of 2 of 4 bundles (budget 3): bundle both-a: release default/both-a becomes till/both-a, "+
		"bundle both-b: release default/both-b becomes till/both-b, bundle both-c, bundle both-d", w.heldList("both"))
	w.stays(names...)
	approves[*fleet.GitRepo](w, "both")
	w.gone(names[2:]...)
	for _, name := range names[:2] {
		sees(w, name+" has moved", "c1=till c2=till c3=till", w.namespaces(name))
	}
}

// A label of a cluster selects another customization: the volume there stays.
func replaceByLabel(_ *testing.T, w *world) {
	w.readRepo("label")
	b := bundle("label-a", "x", fleet.BundleTarget{Name: "special", ClusterSelector: where("tier", "special").ClusterSelector,
		BundleDeploymentOptions: fleet.BundleDeploymentOptions{TargetNamespace: "special"}}, where("env", "prod"))
	b.Labels[fleet.LabelRepoName] = "label"
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "label-a"))
	w.holds("label-a", "c2", "PersistentVolumeClaim", "data")
	w.counted("c2")
	update(w, in("c2"), func(c *fleet.Cluster) { c.Labels["tier"] = "special" })
	w.until("held", func() bool {
		return strings.HasPrefix(repoHeld(w, "label")(), "would replace the release of 1 of 1 bundle with 1 PersistentVolumeClaim")
	})
	sees(w, "it stays", "c1= c2= c3=", w.namespaces("label-a"))
	update(w, in("c2"), func(c *fleet.Cluster) { delete(c.Labels, "tier") })
	sees(w, "taken back", "", repoHeld(w, "label"))
	sees(w, "Ready", "True", bundleReady(w, "label-a"))
}

// A Bundle without GitRepo asks for itself.
func replaceAlone(_ *testing.T, w *world) {
	b := bundle("alone", "x", where("env", "prod"))
	b.Labels = nil
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "alone"))
	update(w, in("alone"), func(b *fleet.Bundle) { b.Spec.TargetNamespace = "shop" })
	sees(w, "it moves", "c1=shop c2=shop c3=shop", w.namespaces("alone"))
	w.holds("alone", "c3", "PersistentVolumeClaim", "data")
	w.counted("c3")
	update(w, in("alone"), func(b *fleet.Bundle) { b.Spec.TargetNamespace = "till" })
	w.until("held", func() bool {
		return strings.HasPrefix(bundleHeld(w, "alone")(), "would replace the release of 1 of ")
	})
	sees(w, "where nothing is lost it moves, and the volume stays", "c1=till c2=till c3=shop", w.namespaces("alone"))
	approves[*fleet.Bundle](w, "alone")
	sees(w, "it moves", "c1=till c2=till c3=till", w.namespaces("alone"))
	sees(w, "nothing is held", "", bundleHeld(w, "alone"))
}

// The last deployment in a namespace with deleteNamespace takes all of it along, and
// is held; one before the last is not.
func namespaceHeld(_ *testing.T, w *world) {
	w.readRepo("space")
	names := []string{"space-a", "space-b", "space-c"}
	w.owned("space", names...)
	w.commits("space", "c2", func(s *fleet.BundleSpec) { s.TargetNamespace, s.DeleteNamespace = "space", true }, names[:2]...)
	for _, name := range names[:2] {
		sees(w, name+" has moved", "c1=space c2=space c3=space", w.namespaces(name))
		w.applied(name, "c1", "c2", "c3")
	}
	w.asks("space", "space-a")
	w.gone("space-a")
	w.asks("space", "space-b")
	sees(w, "held", "would remove 1 of 2 bundles with 3 Namespaces: Namespace space with everything in it on fleet-default/c1, "+
		"Namespace space with everything in it on fleet-default/c2, Namespace space with everything in it on fleet-default/c3, bundle space-b", w.heldList("space"))
	w.stays("space-b")
	approves[*fleet.GitRepo](w, "space")
	w.gone("space-b")
}
