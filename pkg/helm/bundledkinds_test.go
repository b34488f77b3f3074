package helm

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A chart is rendered and applied when discovery lists the kinds of its crds folder, however
// long after the CRDs are Established that is, and whatever client has created them.
func TestInstallAfterKindsAreServed(t *testing.T) {
	const (
		crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: KINDs.example.com}\n" +
			"spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: KIND, plural: KINDs}\n" +
			"  versions: [{name: v1, served: true, storage: true}, {name: v1alpha1, served: false, storage: false}]\n"
		template = `{{ if not (.Capabilities.APIVersions.Has "example.com/v1/gadget") }}{{ fail "no gadget" }}{{ end -}}
{{ if not (.Capabilities.APIVersions.Has "example.com/v1/widget") }}{{ fail "no widget" }}{{ end -}}
{{ if .Capabilities.APIVersions.Has "example.com/v1alpha1" }}{{ fail "a version that is not served" }}{{ end -}}
apiVersion: example.com/v1
kind: gadget
metadata: {name: x}
`
	)
	files := map[string]string{
		"Chart.yaml": limitChart, "templates/x.yaml": template,
		"crds/gadget.yaml": strings.ReplaceAll(crd, "KIND", "gadget"), "crds/widget.yaml": strings.ReplaceAll(crd, "KIND", "widget"),
	}
	install := func(t *testing.T, cluster *fakeCluster) {
		t.Helper()
		d := rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}, files)
		if err := cluster.client(t).Install(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if w := cluster.writes(); !slices.Contains(w, "POST /apis/example.com/v1/namespaces/team-a/gadgets/x") {
			t.Errorf("the object is missing: %v", w)
		}
	}
	for name, existing := range map[string]bool{"created": false, "created by another release": true} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t)
			cluster.lateBy = 2
			if existing {
				for _, kind := range []string{"gadget", "widget"} {
					o := &unstructured.Unstructured{}
					if err := yaml.Unmarshal([]byte(files["crds/"+kind+".yaml"]), &o.Object); err != nil {
						t.Fatal(err)
					}
					cluster.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+o.GetName(), o)
				}
			}
			install(t, cluster)
		})
	}
}
