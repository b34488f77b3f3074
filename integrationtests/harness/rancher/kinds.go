package rancher

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ofFleet are the kinds that Rancher installs only with the feature fleet
// (rancher-differences.md, B 8).
var ofFleet = []schema.GroupVersionResource{Workspaces, ManagedCharts}

// Install installs Rancher's kinds, as far as they are not there, and waits until
// they are served.
func Install(t testing.TB, hub *harness.Hub) {
	t.Helper()
	installBut(t, hub)
}

// installBut is Install without some kinds.
func installBut(t testing.TB, hub *harness.Hub, without ...schema.GroupVersionResource) {
	t.Helper()
	kinds := maps.Clone(own)
	maps.DeleteFunc(kinds, func(r schema.GroupVersionResource, _ kind) bool { return slices.Contains(without, r) })
	crds := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](hub.Admin)
	for r, k := range kinds {
		if _, err := crds.Create(t.Context(), definition(r, k)); err != nil && !kube.IsExists(err) {
			t.Fatal(err)
		}
	}
	objects := dynamic.NewForConfigOrDie(hub.Cluster.REST())
	for r := range kinds {
		harness.Wait(t, timeout, r.GroupResource().String()+" is served", func() bool {
			_, err := objects.Resource(r).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		})
	}
}

func definition(r schema.GroupVersionResource, k kind) *apiextensionsv1.CustomResourceDefinition {
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: r.Version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schemaOf(r)},
	}
	if k.status {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: r.Resource + "." + r.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: r.Group, Scope: k.scope(), Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.name, ListKind: k.name + "List", Plural: r.Resource, Singular: strings.ToLower(k.name)},
		},
	}
}
