package helm

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// If the values on the cluster are no map, the agent waits and retries: no new
// deployment informs it when a user corrects them.
func TestValuesThatAreNoMap(t *testing.T) {
	cluster := newFakeCluster(t)
	at := "/api/v1/namespaces/team-a/configmaps/vals"
	put := func(text string) {
		cluster.put(at, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "vals", "namespace": "team-a"},
			"data": map[string]any{"values.yaml": text},
		}})
	}
	from := fleet.ValuesFrom{ConfigMapKeyRef: &fleet.ConfigMapKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "vals"}}}
	o := fleet.BundleDeploymentOptions{DefaultNamespace: "team-a", Helm: &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{from}}}
	d := rendered(o, map[string]string{"a.yaml": renderMap})
	put("level: [x")
	err := cluster.client(t).Install(t.Context(), d)
	if !reconcile.IsRequeue(err) || reconcile.ReasonOf(err) != release.ReasonBadValues {
		t.Errorf("want a wait for the ConfigMap, got %v", err)
	}
	if want := `helm.valuesFrom: ConfigMap team-a/vals, key "values.yaml": not a YAML map`; err == nil || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
	put("level: x")
	if err := cluster.client(t).Install(t.Context(), d); err != nil {
		t.Errorf("mended: %v", err)
	}
}
