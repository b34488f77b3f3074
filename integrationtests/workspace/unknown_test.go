package workspace

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
)

// invented are fields that no type of Fleet's knows, as JSON.
const invented = `"invented":{"list":[{"a":1,"b":{"c":["d"]}}],"flag":false,"map":{"x.y/z":""}}`

// unknownFields sends objects full of such fields through every write of the manager
// to Rancher's kinds: each is afterwards what it was, but for what was meant.
func unknownFields(w *world) {
	w.rancher.Put(w, rancher.Clusters, "", "c-07070", `{`+invented+`,"metadata":{"labels":{"env":"a"}},
		"spec":{"displayName":"x",`+invented+`,"rancherKubernetesEngineConfig":{"nodes":[{"address":"1.2.3.4"}]},
			"clusterAgentDeploymentCustomization":{`+invented+`,"overrideResourceRequirements":{"limits":{"cpu":"1"}}},
			"fleetAgentDeploymentCustomization":{`+invented+`,"appendTolerations":[{"key":"k","invented":1}]}},
		"status":{"appliedSpec":{},`+invented+`,"conditions":[{"type":"Ready","status":"True","invented":1}]}}`)
	before := w.plain(rancher.Clusters, "", "c-07070")
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-07070", "spec", "fleetWorkspaceName") })
	w.same("assigned", before, w.plain(rancher.Clusters, "", "c-07070"), "spec.fleetWorkspaceName")

	w.until("its provisioning Cluster is made", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-07070") != nil })
	custom, _, _ := unstructured.NestedMap(w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-07070").Object, "spec", "clusterAgentDeploymentCustomization")
	if custom["overrideResourceRequirements"] == nil || custom["invented"] != nil {
		w.Errorf("what changes Rancher's agent is handed on as far as the kind keeps it: %v", custom)
	}
	w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", "c-07070", `{`+invented+`,"metadata":{"finalizers":["invented.io/x"]},
		"spec":{`+invented+`,"fleetAgentDeploymentCustomization":{`+invented+`}},"status":{"clusterName":"c-07070",`+invented+`}}`)
	before = w.plain(rancher.ProvClusters, "fleet-default", "c-07070")
	w.rancher.Patch(w, rancher.Clusters, "", "c-07070", `{"metadata":{"labels":{"env":"b"}}}`)
	w.sees("it is written again", "b", func() string {
		return w.text(rancher.ProvClusters, "fleet-default", "c-07070", "metadata", "labels", "env")
	})
	w.same("provisioned", before, w.plain(rancher.ProvClusters, "fleet-default", "c-07070"), "metadata.labels.env", "metadata.annotations")

	w.rancher.Put(w, rancher.Workspaces, "", "team-07", `{`+invented+`,"metadata":{"finalizers":["invented.io/x"]},"status":{`+invented+`}}`)
	before = w.plain(rancher.Workspaces, "", "team-07")
	w.until("it has a namespace", func() bool { return w.namespace("team-07") != nil })
	w.same("finalized", before, w.plain(rancher.Workspaces, "", "team-07"), "metadata.finalizers")
	w.hub.Namespace(w.TB, "taken-07")
	w.rancher.Put(w, rancher.Workspaces, "", "taken-07", `{`+invented+`}`)
	before = w.plain(rancher.Workspaces, "", "taken-07")
	w.refused("taken-07", "NamespaceRefused")
	w.turns("07")
	// A manager whose cache does not have the namespace yet adds its finalizer first.
	w.same("refused", before, w.plain(rancher.Workspaces, "", "taken-07"), "metadata.annotations", "metadata.finalizers")
	w.patchesOnly()
	w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", "c-07070", `{"metadata":{"finalizers":null}}`)
	movesThoughPruned(w)
}

// movesThoughPruned: the kind does not keep all that is handed on, which holds up nothing.
func movesThoughPruned(w *world) {
	w.rancher.Patch(w, rancher.Clusters, "", "c-07070", `{"spec":{"fleetWorkspaceName":"team-07"}}`)
	w.until("it is created again", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "team-07", "c-07070") != nil })
	w.rancher.Says(w, rancher.ProvClusters, "team-07", "c-07070", `{"status":{"clusterName":"c-07070","clientSecretName":"c-07070-kubeconfig"}}`)
	w.mapped("team-07", "c-07070")
	w.until("the old half goes", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-07070") == nil })
}

// patchesOnly checks that Rancher's objects were only ever patched, but for those
// that the manager has made or unmade itself.
func (w *world) patchesOnly() {
	w.Helper()
	for _, r := range w.writes(time.Time{}) {
		if r.Group != rancher.Clusters.Group && r.Group != rancher.ProvClusters.Group {
			continue
		}
		what := r.What() + " " + r.Verb
		if r.Verb != "patch" && !slices.Contains([]string{"fleetworkspaces create", "clusters delete"}, what) {
			w.Errorf("not a patch: %s", r)
		}
	}
}

// plain is an object without what the API server keeps.
func (w *world) plain(what schema.GroupVersionResource, namespace, name string) map[string]any {
	w.Helper()
	obj := w.rancher.Get(w, what, namespace, name)
	for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", key)
	}
	return obj.Object
}

// same checks that nothing differs but one field.
func (w *world) same(what string, before, after map[string]any, but ...string) {
	w.Helper()
	for _, obj := range []map[string]any{before, after} {
		for _, path := range but {
			unstructured.RemoveNestedField(obj, strings.Split(path, ".")...)
		}
		for _, parent := range []string{"annotations", "labels"} { // whose only entry that was
			if m, found, _ := unstructured.NestedMap(obj, "metadata", parent); found && len(m) == 0 {
				unstructured.RemoveNestedField(obj, "metadata", parent)
			}
		}
	}
	if diff := cmp.Diff(text(before), text(after)); diff != "" {
		w.Errorf("%s: more than %s has changed\n-before +after\n%s", what, but, diff)
	}
}

func text(obj map[string]any) string {
	data, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
