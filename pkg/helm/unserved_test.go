package helm

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An object whose kind the cluster does not serve is named with its file and with what
// helps. Nothing is written, and the agent waits.
func TestUnservedKind(t *testing.T) {
	const (
		gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n"
		crd    = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\n" +
			"spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Gadget, plural: gadgets}\n  versions: [{name: VERSION, served: true, storage: true}]\n"
	)
	crdOf := func(version string) string {
		return crd[:len(crd)-len("VERSION, served: true, storage: true}]\n")] + version + ", served: true, storage: true}]\n"
	}
	cases := map[string]struct {
		why   string
		files map[string]string
		want  string
	}{
		"NoCRD": {"nothing is known of the kind", map[string]string{"a.yaml": renderMap, "x.yaml": gadget},
			"x.yaml: Gadget x: the cluster does not know kind Gadget of example.com/v1; its CRD must be installed first"},
		"Removed": {"Kubernetes names what it has instead", map[string]string{"ing.yaml": "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: x}\n"},
			"ing.yaml: Ingress x: the cluster does not serve Ingress of extensions/v1beta1; use Ingress of networking.k8s.io/v1"},
		"BuiltIn": {"no CRD brings a kind of Kubernetes", map[string]string{"x.yaml": "apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: x}\n"},
			"x.yaml: Deploymnet x: the cluster does not serve Deploymnet of apps/v1, which no CRD can bring"},
		"OtherVersion": {"the CRD is on the cluster in another version",
			map[string]string{"x.yaml": "apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n"},
			"x.yaml: CustomResourceDefinition a.example.com: the cluster does not serve CustomResourceDefinition of apiextensions.k8s.io/v1alpha1; it serves v1"},
		"OwnCRD": {"the bundle brings the kind", map[string]string{"crd.yaml": crdOf("v1"), "x.yaml": gadget},
			"x.yaml: Gadget x: the cluster does not know kind Gadget of example.com/v1 yet; its CRD is in this bundle: " +
				"move the CRD into a bundle of its own, or into the crds folder of a chart"},
		"OwnCRDOther": {"the bundle brings the kind in another version", map[string]string{"crd.yaml": crdOf("v2"), "x.yaml": gadget},
			"x.yaml: Gadget x: the cluster does not serve Gadget of example.com/v1; its CRD in this bundle serves v2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t)
			err := cluster.client(t).Install(t.Context(), rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}, c.files))
			if err == nil || err.Error() != c.want || reconcile.ReasonOf(err) != release.ReasonUnknownKind || !reconcile.IsRequeue(err) {
				t.Errorf("%s\nwant %s\ngot  %v", c.why, c.want, err)
			}
			if w := cluster.writes(); len(w) > 0 {
				t.Errorf("written: %v", w)
			}
		})
	}
	t.Run("ForcedNamespace", func(t *testing.T) {
		o := fleet.BundleDeploymentOptions{TargetNamespace: "team-a"}
		err := newFakeCluster(t).client(t).Install(t.Context(), rendered(o, cases["OtherVersion"].files))
		if err == nil || err.Error() != cases["OtherVersion"].want {
			t.Errorf("want %s\ngot  %v", cases["OtherVersion"].want, err)
		}
	})
}
