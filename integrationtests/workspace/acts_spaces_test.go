package workspace

import (
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

const byAna = `{"metadata":{"labels":{"tier":"1","x.cattle.io/y":"z"},"annotations":{"note":"n","field.cattle.io/creatorId":"u-ana"}}}`

// hers waits until who has made a workspace has the rights in it.
func (w *world) hers(name string) {
	w.Helper()
	w.until("its maker has the rights", func() bool {
		b, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: name, Name: "fleetworkspace-admin-binding-" + name})
		return err == nil && b.Subjects[0].Name == "u-ana"
	})
}

func spaceLives(w *world, since time.Time) {
	w.rancher.Put(w, rancher.Workspaces, "", "s1", byAna)
	w.hers("s1")
	w.by(rancher.User, since, "metadata.labels.tier", namespaces, "", "s1")
}

func spaceAway(w *world, since time.Time) {
	w.rancher.Put(w, rancher.Workspaces, "", "s1b", byAna)
	w.hers("s1b")
	w.by(manager, since, "metadata.labels.tier", namespaces, "", "s1b")
}

func spaceBack(w *world, since time.Time) {
	w.adopted(since, namespaces, "", "s1b")
	if ns := w.namespace("s1b"); ns.Labels["tier"] != "1" || ns.Labels["x.cattle.io/y"] != "" || ns.Annotations["note"] != "n" {
		w.Errorf("%+v", ns.ObjectMeta)
	}
	w.hers("s1b")
}

// While Rancher lives it takes any namespace. We never do, and what Rancher has taken
// is never deleted by us.
func existingLives(w *world, since time.Time) {
	w.hub.Namespace(w.TB, "prod1")
	w.rancher.Put(w, rancher.Workspaces, "", "prod1", byAna)
	w.hers("prod1")
	w.untouched(manager, since, namespaces, "", "prod1")
}

func existingAway(w *world, since time.Time) {
	w.hub.Namespace(w.TB, "prod2")
	w.rancher.Put(w, rancher.Workspaces, "", "prod2", byAna)
	w.refused("prod2", "NamespaceRefused")
	w.rancher.Put(w, rancher.Workspaces, "", "cattle-system", byAna)
	w.refused("cattle-system", "NamespaceRefused")
	for _, name := range []string{"prod2", "cattle-system"} {
		w.untouched(manager, since, namespaces, "", name)
	}
	w.rancher.Delete(w, rancher.Workspaces, "", "cattle-system")
	w.rancher.Delete(w, rancher.Workspaces, "", "prod1")
	w.until("the workspace goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "prod1") == nil })
	w.turns("x14")
	if w.leaves("prod1") {
		w.Error("a namespace that was there before is deleted")
	}
}

func existingBack(w *world, since time.Time) {
	w.rancher.Delete(w, rancher.Workspaces, "", "prod2")
	w.until("the workspace goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "prod2") == nil })
	w.untouched(manager, since, namespaces, "", "prod2")
}

func orphanLives(w *world, since time.Time) {
	w.hub.Namespace(w.TB, "o1")
	w.bundle("o1")
	w.until("a namespace with a Bundle is a workspace", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "o1") != nil })
	w.untouched(manager, since, workspaces, "", "o1")
}

func orphanAway(w *world, since time.Time) {
	w.hub.Namespace(w.TB, "o2")
	w.hub.Namespace(w.TB, "cluster-fleet-default-o2-0")
	w.bundle("cluster-fleet-default-o2-0")
	w.bundle("o2")
	w.until("a namespace with a Bundle is a workspace", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "o2") != nil })
	w.by(manager, since, "metadata.annotations["+plan.AnnotationManaged+"]", workspaces, "", "o2")
	w.turns("o15")
	if w.rancher.Get(w, rancher.Workspaces, "", "cluster-fleet-default-o2-0") != nil {
		w.Error("our own namespaces are none")
	}
}

func orphanBack(w *world, since time.Time) {
	w.rancher.Delete(w, rancher.Workspaces, "", "o2")
	w.until("it goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "o2") == nil })
	if w.leaves("o2") {
		w.Error("its namespace stays")
	}
	w.untouched(rancher.User, since, namespaces, "", "o2")
}

func guardLives(w *world, since time.Time) {
	w.rancher.Put(w, rancher.Workspaces, "", "g1", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("g1") != nil })
	w.rancher.Triple(w, "g1", "held", "c-m-00000016", "")
	w.until("the workspace is guarded", func() bool {
		return slices.Contains(w.rancher.Get(w, rancher.Workspaces, "", "g1").GetFinalizers(), plan.Finalizer)
	})
	w.sees("what the manager has written", "metadata.finalizers", func() string {
		return strings.Join(w.fields(manager, since, workspaces, "", "g1"), " ") // the audit log may be written after the request is answered
	})
}

func guardAway(w *world, _ time.Time) {
	w.rancher.Delete(w, rancher.Workspaces, "", "g1")
	w.refused("g1", "DeletionRefused")
	if w.leaves("g1") {
		w.Error("the namespace is on its way out")
	}
}

func guardBack(w *world, _ time.Time) {
	if w.leaves("g1") || w.rancher.Get(w, rancher.Workspaces, "", "g1") == nil {
		w.Fatal("it is not held any more")
	}
	w.rancher.Delete(w, rancher.ProvClusters, "g1", "held")
	w.until("without clusters it goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "g1") == nil })
	w.until("and Rancher deletes its namespace", func() bool { return w.leaves("g1") })
}

func movedLives(w *world, since time.Time) {
	for _, name := range []string{"v1", "v2", "v3"} {
		w.rancher.Put(w, rancher.Workspaces, "", name, `{}`)
		w.until("the namespace is there", func() bool { return w.namespace(name) != nil })
	}
	cluster := w.rancher.Provision(w, "v1", "mover", `{"spec":{"rkeConfig":{}}}`)
	w.rancher.Ready(w, cluster, true)
	w.mapped("v1", "mover")
	w.rancher.Patch(w, rancher.Clusters, "", cluster, `{"spec":{"fleetWorkspaceName":"v2"}}`)
	if c := w.mapped("v2", "mover"); c.Spec.KubeConfigSecretNamespace != "v1" {
		w.Errorf("the kubeconfig stays where it is: %+v", c.Spec)
	}
	w.until("the old one goes", func() bool { return w.cluster("v1", "mover") == nil })
	w.untouched(manager, since, fleetClusters, "v2", "mover")
}

func movedAway(w *world, since time.Time) {
	w.rancher.Patch(w, rancher.Clusters, "", w.managed("v1", "mover"), `{"spec":{"fleetWorkspaceName":"v3"}}`) // Rancher will do it
	w.rancher.Triple(w, "v1", "mover2", "c-m-00000018", "")
	w.mapped("v1", "mover2")
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-00000018", `{"spec":{"fleetWorkspaceName":"v2"}}`)
	w.mapped("v2", "mover2")
	w.until("the old one goes", func() bool { return w.cluster("v1", "mover2") == nil })
	w.untouched(manager, since, fleetClusters, "v2", "mover")
	w.untouched(manager, since, fleetClusters, "v3", "mover")
}

func movedBack(w *world, since time.Time) {
	w.mapped("v3", "mover")
	w.until("the old one goes", func() bool { return w.cluster("v2", "mover") == nil })
	w.by(rancher.User, w.started, "spec.kubeConfigSecretNamespace", fleetClusters, "v3", "mover")
	w.adopted(since, fleetClusters, "v2", "mover2")
}

func downLives(w *world, _ time.Time) {
	w.provision("d1", "")
	w.rancher.Put(w, rancher.Workspaces, "", "d1-space", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("d1-space") != nil })
}

// Both are down when things are deleted.
func downAway(w *world, _ time.Time) {
	for name, cluster := range map[string]string{"d2": "c-m-00000020", "d3": "c-m-00000021"} {
		w.rancher.Triple(w, "fleet-default", name, cluster, "")
		w.mapped("fleet-default", name)
	}
	w.rancher.Put(w, rancher.Workspaces, "", "d2-space", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("d2-space") != nil })
	w.stop()
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "d3", `{"metadata":{"annotations":{"`+plan.AnnotationMappedFrom+`":null}}}`) // adopted by hand
	for _, name := range []string{"d1", "d2", "d3"} {
		w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", name, `{"metadata":{"finalizers":null}}`)
		w.rancher.Delete(w, rancher.ProvClusters, "fleet-default", name)
	}
	for _, name := range []string{"d1-space", "d2-space"} {
		w.rancher.Patch(w, rancher.Workspaces, "", name, `{"metadata":{"finalizers":null}}`)
		w.rancher.Delete(w, rancher.Workspaces, "", name)
	}
	w.start(plan.Auto)
	w.takesOver()
	w.until("the Cluster of a lost cluster goes", func() bool { return w.cluster("fleet-default", "d2") == nil })
	w.forsaken("d2-space")
	w.turns("d20")
	for _, name := range []string{"d1", "d3"} {
		if w.cluster("fleet-default", name) == nil {
			w.Errorf("%s is not the manager's, and is gone", name)
		}
	}
	if w.leaves("d1-space") {
		w.Error("a namespace that Rancher has made is Rancher's")
	}
}

// What Rancher has not seen go, it never cleans up.
func downBack(w *world, since time.Time) {
	w.provision("d4", "")
	for _, name := range []string{"d1", "d3"} {
		if w.cluster("fleet-default", name) == nil {
			w.Errorf("%s is gone", name)
		}
		w.untouched(manager, since, fleetClusters, "fleet-default", name)
	}
}
