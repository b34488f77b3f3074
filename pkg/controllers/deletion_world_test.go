package controllers_test

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// owned makes Bundles of a repository.
func (w *world) owned(repo string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		b := bundle(name, "x", where("env", "prod"))
		b.Labels[fleet.LabelRepoName] = repo
		w.create(b)
	}
	for _, name := range names {
		sees(w, name+" is Ready", "True", bundleReady(w, name))
	}
}

// asks plays the reader of repositories: it marks Bundles, and then asks for
// them to be removed.
func (w *world) asks(repo string, names ...string) {
	w.t.Helper()
	mark := w.marks(names...)
	update(w, in(repo), func(r *fleet.GitRepo) { annotate(r, fleet.AnnotationPrune, mark) })
}

func (w *world) marks(names ...string) string {
	w.t.Helper()
	var list []*fleet.Bundle
	for _, name := range names {
		list = append(list, get[*fleet.Bundle](w, in(name)))
	}
	mark := withdrawal.PruneMark(list)
	for _, name := range names {
		update(w, in(name), func(b *fleet.Bundle) { annotate(b, fleet.AnnotationPrune, mark) })
	}
	return mark
}

func annotate(o metav1.Object, key, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	if value == "" {
		delete(all, key)
	}
	o.SetAnnotations(all)
}

// heldText returns the message of the condition DeletionHeld, up to the
// command, or "half said" if the condition and the annotation have different
// hashes.
func heldText(w *world, o metav1.Object, list []fleet.Condition) string {
	w.t.Helper()
	c := condition.Find(list, fleet.ConditionDeletionHeld)
	hash, _, _ := withdrawal.ReadText(o.GetAnnotations()[fleet.AnnotationDeletionHeld])
	switch {
	case c == nil && hash == "":
		return ""
	case c == nil || hash == "" || !strings.HasSuffix(c.Message, " "+hash):
		return "half said"
	}
	text, _, _ := strings.Cut(c.Message, "; to go on: ")
	return text
}

func repoHeld(w *world, name string) func() string {
	return func() string {
		r := get[*fleet.GitRepo](w, in(name))
		return heldText(w, r, r.Status.Conditions)
	}
}

func bundleHeld(w *world, name string) func() string {
	return func() string {
		b := get[*fleet.Bundle](w, in(name))
		return heldText(w, b, b.Status.Conditions)
	}
}

// approves approves what is held now.
func approves[P kube.Object](w *world, name string) {
	w.t.Helper()
	update(w, in(name), func(o P) {
		hash, _, _ := withdrawal.ReadText(o.GetAnnotations()[fleet.AnnotationDeletionHeld])
		annotate(o, fleet.AnnotationApproveDeletion, hash)
	})
}

// applied waits until agents have applied the version of a Bundle that they were given. A
// Bundle that has been given another version is Ready for a moment as it was.
func (w *world) applied(name string, clusters ...string) {
	w.t.Helper()
	for _, cluster := range clusters {
		w.until("the agent has applied "+name+" on "+cluster, func() bool {
			bd := w.deployment(name, cluster)
			return bd != nil && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
		})
	}
}

// holds lets the deployments of a Bundle report one more object, once the agent has applied
// the version that it was given: it reports again with each version. The manager's watch
// may deliver a later write first: counted waits for it.
func (w *world) holds(name, cluster, kind, object string) {
	w.t.Helper()
	w.applied(name, cluster)
	setStatus(w, kube.KeyOf(w.deployment(name, cluster)), func(bd *fleet.BundleDeployment) {
		bd.Status.Resources = append(bd.Status.Resources, fleet.BundleDeploymentResource{Kind: kind, APIVersion: "v1", Namespace: "pos", Name: object})
		bd.Status.ResourceCounts.Ready++
		bd.Status.ResourceCounts.DesiredReady++
	})
}

// counted waits until the manager knows what the deployments on clusters report now: their
// Clusters count it.
func (w *world) counted(clusters ...string) {
	w.t.Helper()
	for _, name := range clusters {
		w.until(name+" counts what is reported", func() bool {
			list, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).List(w.t.Context(), w.agents[name].namespace, "")
			if err != nil {
				w.t.Fatal(err)
			}
			reported := 0
			for _, bd := range list {
				reported += bd.Status.ResourceCounts.DesiredReady
			}
			return get[*fleet.Cluster](w, in(name)).Status.ResourceCounts.DesiredReady == reported
		})
	}
}

func (w *world) gone(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.until(name+" is gone", func() bool { return get[*fleet.Bundle](w, in(name)) == nil })
		sees(w, name+" is nowhere", "", w.on(name))
	}
}

// stays makes sure that Bundles and all their deployments are there and not
// ordered to leave, after the manager has looked at everything once more.
func (w *world) stays(names ...string) {
	w.t.Helper()
	w.settled()
	for _, name := range names {
		if b := get[*fleet.Bundle](w, in(name)); b == nil || b.DeletionTimestamp != nil {
			w.t.Errorf("%s was removed", name)
		}
		if got := w.on(name)(); got != "c1 c2 c3" {
			w.t.Errorf("%s is on %q", name, got)
		}
	}
}

// settled waits until the manager has worked on something that came after all
// else: another removal, which is not held.
func (w *world) settled() {
	w.t.Helper()
	name := fmt.Sprintf("probe-%d", time.Now().UnixNano())
	b := bundle(name, "x", where("env", "prod"))
	b.Labels = nil
	w.create(b)
	sees(w, "the probe is there", "c1 c2 c3", w.on(name))
	remove[*fleet.Bundle](w, in(name))
	w.gone(name)
}
