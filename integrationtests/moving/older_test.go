package moving

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The kinds of an older chart do not keep a field that a cluster of Rancher's asks
// for. That is said, and not tried again and again; with the kinds of today the field
// is there.
func olderKinds(w *world) {
	w.provision("a", "older", "c-m-abcd0619", `[]`)
	field := w.kindWithout("agentTolerations")
	since := time.Now()
	w.patch(rancher.Clusters, "", "c-m-abcd0619", `{"spec":{"fleetAgentDeploymentCustomization":{"appendTolerations":[{"key":"edge","operator":"Exists"}]}}}`)
	w.said("a", "older", "FieldsNotKept", "upgrade the chart fleet-crd")
	for i := range 3 { // signs of life of an agent
		w.patch(rancher.FleetClusters, "a", "older", fmt.Sprintf(`{"status":{"agent":{"lastSeen":"2026-01-01T00:00:0%dZ"}}}`, i), "status")
	}
	// Of Clusters the manager sees everything in order: what it answers it has seen last.
	w.patch(rancher.FleetClusters, "a", "older", `{"spec":{"kubeConfigSecret":"other"}}`)
	w.until("what was mapped is put back", func() bool { return w.cluster("a", "older").Spec.KubeConfigSecret == "older-kubeconfig" })
	w.until("both changes are in the log", func() bool { return w.writes("older", since) >= 2 })
	if n := w.writes("older", since); n != 2 {
		w.Errorf("two changes were written %d times", n)
	}
	w.patch(rancher.Clusters, "", "c-m-abcd0619", `{"metadata":{"labels":{"tier":"1"}}}`)
	w.until("what the kind has is kept", func() bool { return w.cluster("a", "older").Labels["tier"] == "1" })
	w.kindWith("agentTolerations", field)
	w.patch(rancher.Clusters, "", "c-m-abcd0619", `{"metadata":{"labels":{"tier":"2"}}}`)
	w.until("all of it is kept", func() bool {
		c := w.cluster("a", "older")
		return len(c.Spec.AgentTolerations) == 1 && c.Labels["tier"] == "2"
	})
}

// writes counts what the manager has written of a Fleet Cluster.
func (w *world) writes(name string, since time.Time) (n int) {
	w.Helper()
	for _, r := range w.audit(w.hub, since) {
		if r.Writes() && r.Code < 300 && r.Group == fleet.Group && r.Resource == "clusters" && r.Name == name && strings.HasPrefix(r.Agent, "fleet-workspace") {
			n++
		}
	}
	return n
}

var crds = schema.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions"}

const (
	kindCluster = "clusters." + fleet.Group
	specFields  = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
)

// kindWithout takes a field from the kind Cluster, and returns what it was.
func (w *world) kindWithout(field string) (was any) {
	w.Helper()
	crd, err := w.objects.Resource(crds).Get(w.Context(), kindCluster, metav1.GetOptions{})
	w.must(err)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	w.must(err)
	version, _ := versions[0].(map[string]any)
	was, ok, err := unstructured.NestedFieldCopy(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", field)
	if w.must(err); !ok {
		w.Fatalf("the kind has no field %s", field)
	}
	w.alter(fmt.Sprintf(`[{"op":"remove","path":%q}]`, specFields+field))
	w.until("the kind has lost its field", func() bool { return !w.keepsTolerations() })
	return was
}

// kindWith gives a field back to the kind Cluster.
func (w *world) kindWith(field string, was any) {
	w.Helper()
	text, err := json.Marshal(was)
	w.must(err)
	w.alter(fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, specFields+field, text))
	w.until("the kind has its field again", w.keepsTolerations)
}

func (w *world) alter(patch string) {
	w.Helper()
	_, err := w.objects.Resource(crds).Patch(w.Context(), kindCluster, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

// keepsTolerations reports whether the API server would keep the field.
func (w *world) keepsTolerations() bool {
	w.Helper()
	probe := &unstructured.Unstructured{}
	w.must(probe.UnmarshalJSON([]byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":{"name":"probe"},
		"spec":{"agentTolerations":[{"key":"a","operator":"Exists"}]}}`)))
	kept, err := w.objects.Resource(rancher.FleetClusters).Namespace("a").Create(w.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	w.must(err)
	_, ok, _ := unstructured.NestedSlice(kept.Object, "spec", "agentTolerations")
	return ok
}
