package terminating

import (
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// What is protected stays when a person deletes it, also after a restart of the manager,
// until exactly its list is approved: a Bundle, a GitRepo with all of its Bundles, and a
// Cluster, of which nothing is uninstalled.
func TestProtected(t *testing.T) {
	all := newWorld(t, fromFiles(t))
	t.Run("Bundle", func(t *testing.T) { all.in(t).protectedBundle() })
	t.Run("GitRepo", func(t *testing.T) { all.in(t).protectedRepo() })
	t.Run("Cluster", func(t *testing.T) { all.in(t).protectedCluster() })
}

func (w *world) protectedBundle() {
	w.Helper()
	key := kube.Key{Namespace: workspace, Name: "db"}
	before := w.objects()
	annotate[*fleet.Bundle](w, key, fleet.AnnotationProtect, "true")
	remove[*fleet.Bundle](w, key)
	text := heldText[*fleet.Bundle](w, key)
	if !strings.Contains(text, "PersistentVolumeClaim "+w.site.Prefix+"db/data on ") {
		w.Errorf("the list lacks the volume: %s", text)
	}
	annotate[*fleet.Bundle](w, key, fleet.AnnotationApproveDeletion, "0123456789abcdef")
	decideAgain[*fleet.Bundle](w, key)
	if again := heldText[*fleet.Bundle](w, key); again != text {
		w.Errorf("the list has changed: %s", again)
	}
	w.unharmed(before)
	approve[*fleet.Bundle](w, key)
	w.until("the Bundle is gone", func() bool { return w.bundle("db") == nil })
	w.until("only its objects are removed", func() bool { return len(w.objects()) == len(before)-2 })
	w.bundles()
	w.ready()
}

func (w *world) protectedRepo() {
	w.Helper()
	key := kube.Key{Namespace: workspace, Name: repo}
	before := w.objects()
	w.stop() // its watches of two kinds know nothing of each other: it might see the Bundle deleted before the protection
	annotate[*fleet.GitRepo](w, key, fleet.AnnotationProtect, "true")
	w.start()
	web := kube.Key{Namespace: workspace, Name: "web"}
	remove[*fleet.Bundle](w, web)
	heldText[*fleet.Bundle](w, web) // it has the protection of its GitRepo
	remove[*fleet.GitRepo](w, key)
	text := heldText[*fleet.GitRepo](w, key)
	decideAgain[*fleet.GitRepo](w, key)
	if again := heldText[*fleet.GitRepo](w, key); again != text {
		w.Errorf("the list has changed: %s", again)
	}
	w.unharmed(before)
	for _, name := range names {
		if b := w.bundle(name); b == nil || b.DeletionTimestamp != nil && name != "web" {
			w.Errorf("Bundle %s goes", name)
		}
	}
	approve[*fleet.GitRepo](w, key)
	w.gone()
	w.until("everything is removed", func() bool { return len(w.objects()) == 0 })
	w.until("the GitRepo is gone", func() bool {
		_, ok := harness.Read[*fleet.GitRepo](w, w.hub, workspace, repo)
		return !ok
	})
	w.repository()
	w.bundles()
	w.ready()
}

func (w *world) protectedCluster() {
	w.Helper()
	list, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).List(w.Context(), workspace, "")
	w.must(err)
	key := kube.KeyOf(list[0])
	before := w.objects()
	annotate[*fleet.Cluster](w, key, fleet.AnnotationProtect, "true")
	remove[*fleet.Cluster](w, key)
	heldText[*fleet.Cluster](w, key)
	harness.Revise(w, w.hub.Admin, kube.Key{Namespace: workspace, Name: "web"}, func(b *fleet.Bundle) {
		b.Spec.Resources[0].Content = harness.ConfigMap("web", "newer")
	})
	w.until("the new version is planned", func() bool {
		b := w.bundle("web")
		return b.Status.ObservedGeneration == b.Generation
	})
	w.ready() // it is served as before
	w.unharmed(before)
	approve[*fleet.Cluster](w, key)
	w.until("the Cluster is gone", func() bool {
		_, ok := harness.Read[*fleet.Cluster](w, w.hub, workspace, key.Name)
		return !ok
	})
	w.unharmed(before)
}

// annotate sets an annotation as a person does.
func annotate[P kube.Object](w *world, key kube.Key, name, value string) {
	w.Helper()
	harness.Revise(w, w.hub.Admin, key, func(o P) {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
		o.SetAnnotations(all)
	})
}

// remove deletes an object as a person does, once Fleet has its finalizer on it.
func remove[P kube.Object](w *world, key kube.Key) {
	w.Helper()
	w.until("a finalizer is on "+key.String(), func() bool {
		o, ok := harness.Read[P](w, w.hub, key.Namespace, key.Name)
		return ok && slices.ContainsFunc(o.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, fleet.Group) })
	})
	w.must(kube.StoreOf[P](w.hub.Admin).Delete(w.Context(), key, kube.Precondition{}))
}

// heldText waits until the deletion of an object is held, and returns its list.
func heldText[P kube.Object](w *world, key kube.Key) (text string) {
	w.Helper()
	w.until("the deletion of "+key.String()+" is held", func() bool {
		o, ok := harness.Read[P](w, w.hub, key.Namespace, key.Name)
		if !ok {
			w.Fatalf("%s is gone", key)
		}
		text = o.GetAnnotations()[fleet.AnnotationDeletionHeld]
		hash, _, _ := withdrawal.ReadText(text)
		c := condition.Find(*conditions(o), fleet.ConditionDeletionHeld)
		return o.GetDeletionTimestamp() != nil && hash != "" && c != nil && c.Reason == fleet.ReasonProtected && strings.Contains(c.Message, hash)
	})
	return text
}

// decideAgain starts the manager again. What the manager before has said about a held
// deletion is taken off meanwhile, so that heldText waits for the one that is started.
func decideAgain[P kube.Object](w *world, key kube.Key) {
	w.Helper()
	w.stop()
	o, ok := harness.Read[P](w, w.hub, key.Namespace, key.Name)
	if !ok {
		w.Fatalf("%s is gone", key)
	}
	changed, _ := o.DeepCopyObject().(P)
	list := conditions(changed)
	*list = condition.Remove(*list, fleet.ConditionDeletionHeld)
	_, err := kube.StoreOf[P](w.hub.Admin).PatchStatus(w.Context(), o, changed)
	w.must(err)
	w.start()
}

// conditions are those in the status of an object.
func conditions(o kube.Object) *[]fleet.Condition {
	switch o := o.(type) {
	case *fleet.Bundle:
		return &o.Status.Conditions
	case *fleet.GitRepo:
		return &o.Status.Conditions
	case *fleet.Cluster:
		return &o.Status.Conditions
	}
	return &[]fleet.Condition{}
}

// approve approves the list of what is held of an object.
func approve[P kube.Object](w *world, key kube.Key) {
	w.Helper()
	hash, _, _ := withdrawal.ReadText(heldText[P](w, key))
	annotate[P](w, key, fleet.AnnotationApproveDeletion, hash)
}
