package beside

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// manager is the lease of the role that ties Fleet to Rancher.
const manager = "fleet-workspace-lock"

// TestBesideRancher: the program that the chart runs waits for Rancher's kinds,
// maps Rancher's objects to Fleet's if Rancher does not, only observes while
// Rancher lives, and guards workspaces in both roles: with the rights of the chart
// and no others.
func TestBesideRancher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, harness.Cluster(t, "beside"))
	r := w.start("fleet-controller", "pod")
	w.until("the role begins", func() bool { return w.holder(fleet.NamespaceSystem, manager) == "pod" })
	rancher.Install(t, w.hub) // the kinds alone: it wakes up by itself
	r.says("workspaces: map")
	p := rancher.New(t, w.hub)
	p.Local = false
	for _, s := range []struct {
		name   string
		report func(*world, *rancher.Rancher, *run)
	}{
		{"Maps", mapsAlone}, {"16_GuardAlone", guardsAlone}, {"Observes", observes}, {"16_GuardBesideRancher", guardsBeside},
		{"16_GuardClusterAPI", guardsMachines}, {"Restarts", restarts}, {"Rights", rightsSuffice},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.report(w.in(t), p, r) }) {
			return
		}
	}
}

// cluster reads a Fleet Cluster; nil if there is none.
func (w *world) cluster(namespace, name string) *fleet.Cluster {
	c, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return nil
	}
	return c
}

// namespace reads a Namespace; nil if there is none.
func (w *world) namespace(name string) *corev1.Namespace {
	ns, err := kube.StoreOf[*corev1.Namespace](w.hub.Admin).Get(w.Context(), kube.Key{Name: name})
	if err != nil {
		return nil
	}
	return ns
}

// guarded reports whether a workspace has our finalizer.
func (w *world) guarded(p *rancher.Rancher, name string) bool {
	ws := p.Get(w, rancher.Workspaces, "", name)
	return ws != nil && slices.Contains(ws.GetFinalizers(), plan.Finalizer)
}

// refusal is why a workspace is not deleted, as it says itself.
func (w *world) refusal(p *rancher.Rancher, name string) string {
	if ws := p.Get(w, rancher.Workspaces, "", name); ws != nil {
		return ws.GetAnnotations()[plan.AnnotationRefused]
	}
	return ""
}

// mapsAlone takes every way of writing that there is, with the rights of the chart:
// a workspace with its namespace and its maker's rights, a cluster that is assigned,
// a provisioning Cluster that is made, one that is mapped and one that is given up.
func mapsAlone(w *world, p *rancher.Rancher, _ *run) {
	p.Put(w, rancher.Workspaces, "", "fleet-default", `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-maker"}}}`)
	p.Put(w, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"","default":"fleet-default"}`)
	w.until("the namespace is there", func() bool { return w.namespace("fleet-default") != nil })
	p.Import(w, "", "c-abcde", "shop", "")
	w.until("it is assigned, and has a provisioning Cluster", func() bool { return p.Get(w, rancher.ProvClusters, "fleet-default", "c-abcde") != nil })
	p.Triple(w, "fleet-default", "c1", "c-m-00000001", `"labels":{"env":"dev"}`)
	w.until("it is mapped", func() bool { c := w.cluster("fleet-default", "c1"); return c != nil && c.Labels["env"] == "dev" })
	p.Triple(w, "fleet-default", "c2", "c-m-00000002", "")
	w.until("it is mapped", func() bool { return w.cluster("fleet-default", "c2") != nil })
	p.Delete(w, rancher.ProvClusters, "fleet-default", "c2")
	w.until("it is given up", func() bool { return w.cluster("fleet-default", "c2") == nil })
	w.hub.Namespace(w, "found")
	_, err := kube.StoreOf[*fleet.Bundle](w.hub.Admin).Create(w.Context(), &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "found", Name: "b"}})
	w.must(err)
	w.until("a namespace with a Bundle is a workspace", func() bool { return p.Get(w, rancher.Workspaces, "", "found") != nil })
}

// guardsAlone: while we map, a workspace that holds a cluster stays, says why, and
// goes with its namespace when it is empty.
func guardsAlone(w *world, p *rancher.Rancher, _ *run) {
	p.Put(w, rancher.Workspaces, "", "team-a", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("team-a") != nil })
	p.Triple(w, "team-a", "held", "c-m-00000016", "")
	w.until("it is mapped", func() bool { return w.cluster("team-a", "held") != nil })
	p.Delete(w, rancher.Workspaces, "", "team-a")
	w.until("it says why it stays", func() bool { return strings.Contains(w.refusal(p, "team-a"), "Cluster held") })
	if ns := w.namespace("team-a"); ns == nil || ns.DeletionTimestamp != nil {
		w.Error("the namespace is on its way out")
	}
	p.Delete(w, rancher.Clusters, "", "c-m-00000016")
	p.Delete(w, rancher.ProvClusters, "team-a", "held")
	w.until("it goes", func() bool { return p.Get(w, rancher.Workspaces, "", "team-a") == nil })
}

// onlyGuards fails the test if the manager has written anything since a moment but
// patches of FleetWorkspaces, its lease and its events.
func (w *world) onlyGuards(since time.Time) {
	w.Helper()
	for _, x := range w.writes("fleet-controller", since) {
		own := x.Resource == "leases" || x.Resource == "events"
		guard := x.Resource == "fleetworkspaces" && x.Verb == "patch"
		if strings.HasPrefix(x.Agent, fleet.FieldManagerWorkspace) && !own && !guard {
			w.Errorf("written beside Rancher: %s", x)
		}
	}
}

// observes: from the moment in which Rancher takes its lease we write nothing of
// Rancher's or for it.
func observes(w *world, p *rancher.Rancher, r *run) {
	p.Start(w)
	r.says("workspaces: observe")
	since := time.Now()
	p.Put(w, rancher.Workspaces, "", "theirs", `{}`)
	w.until("Rancher makes the namespace", func() bool { return w.namespace("theirs") != nil })
	p.Import(w, "theirs", "c-bbbbb", "b", "")
	w.until("Rancher makes the provisioning Cluster", func() bool { return p.Get(w, rancher.ProvClusters, "theirs", "c-bbbbb") != nil })
	w.until("a workspace with a cluster is guarded", func() bool { return w.guarded(p, "theirs") })
	w.onlyGuards(since)
	if _, ok := w.namespace("theirs").Annotations[plan.AnnotationOrigin]; ok {
		w.Error("a namespace of Rancher's bears our mark")
	}
}

// guardsBeside: Rancher would delete the namespace with the workspace, and all
// clusters with it. It cannot before the clusters are gone, or a user approves
// the deletion.
func guardsBeside(w *world, p *rancher.Rancher, _ *run) {
	p.Delete(w, rancher.Workspaces, "", "theirs")
	w.until("it says why it stays", func() bool { return strings.Contains(w.refusal(p, "theirs"), "Cluster c-bbbbb") })
	if ns := w.namespace("theirs"); ns == nil || ns.DeletionTimestamp != nil {
		w.Error("the namespace is on its way out")
	}
	p.Patch(w, rancher.Workspaces, "", "theirs", `{"metadata":{"annotations":{"`+plan.AnnotationDeleteClusters+`":"true"}}}`)
	w.until("it goes", func() bool { return p.Get(w, rancher.Workspaces, "", "theirs") == nil })
	w.until("Rancher deletes the namespace", func() bool { ns := w.namespace("theirs"); return ns == nil || ns.DeletionTimestamp != nil })
	p.Put(w, rancher.Workspaces, "", "empty", `{}`)
	w.until("Rancher makes the namespace", func() bool { return w.namespace("empty") != nil })
	if w.guarded(p, "empty") {
		w.Error("an empty workspace is none of our business")
	}
	p.Delete(w, rancher.Workspaces, "", "empty")
	w.until("it goes at once", func() bool { return p.Get(w, rancher.Workspaces, "", "empty") == nil })
}

// guardsMachines: clusters of the Cluster API count, also where their kind comes
// later than everything else.
func guardsMachines(w *world, p *rancher.Rancher, _ *run) {
	capi := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	keep := true
	body := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}
	_, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](w.hub.Admin).Create(w.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: capi.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Cluster", ListKind: "ClusterList", Plural: "clusters", Singular: "cluster"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true, Schema: body}, {Name: "v1beta2", Served: true, Storage: true, Schema: body},
			},
		},
	})
	w.must(err)
	p.Put(w, rancher.Workspaces, "", "machines", `{}`)
	w.until("Rancher makes the namespace", func() bool { return w.namespace("machines") != nil })
	objects := dynamic.NewForConfigOrDie(w.hub.Cluster.REST()).Resource(capi).Namespace("machines")
	w.until("the kind is served", func() bool {
		_, err := objects.Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "metal"},
		}}, metav1.CreateOptions{})
		return err == nil
	})
	w.until("it is guarded", func() bool { return w.guarded(p, "machines") })
	p.Delete(w, rancher.Workspaces, "", "machines")
	w.until("it says why it stays", func() bool { return strings.Contains(w.refusal(p, "machines"), "Cluster API Cluster metal") })
	w.must(objects.Delete(w.Context(), "metal", metav1.DeleteOptions{}))
	w.until("it goes", func() bool { return p.Get(w, rancher.Workspaces, "", "machines") == nil })
}

// restarts: a program that is started again beside Rancher observes from its first
// moment.
func restarts(w *world, p *rancher.Rancher, r *run) {
	r.stop()
	p.Put(w, rancher.Workspaces, "", "meanwhile", `{}`)
	p.Triple(w, "fleet-default", "c3", "c-m-00000003", "")
	since := time.Now()
	again := w.start("fleet-controller", "pod-2")
	again.says("workspaces: observe")
	p.Triple(w, "fleet-default", "c4", "c-m-00000004", "")
	w.until("Rancher maps it", func() bool { return w.cluster("fleet-default", "c4") != nil })
	w.onlyGuards(since)
	again.stop()
}

// rightsSuffice: nothing that the program tried was forbidden.
func rightsSuffice(w *world, _ *rancher.Rancher, _ *run) {
	if list := w.forbidden("fleet-controller"); len(list) > 0 {
		w.Errorf("not allowed:\n%s", harness.Lines(list))
	}
}
