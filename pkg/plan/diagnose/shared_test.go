package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestShared(t *testing.T) {
	service := fleet.BundleDeploymentResource{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: "web"}
	crd := fleet.BundleDeploymentResource{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "things.example.com"}
	role := fleet.BundleDeploymentResource{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"}
	older := fleet.BundleDeploymentResource{APIVersion: "rbac.authorization.k8s.io/v1beta1", Kind: "ClusterRole", Name: "reader"}
	type deployment struct {
		namespace, repo, bundle string
		takes                   bool
		has                     fleet.BundleDeploymentResource
	}
	cases := map[string]struct {
		why  string
		list []deployment
		want []Finding
	}{
		"Apart": {
			why: "other clusters, other repositories, a bundle that takes over by order, and a CRD that two charts bring",
			list: []deployment{
				{"c1", "shop", "a", false, service}, {"c1", "other", "b", false, service}, {"c1", "shop", "c", true, service},
				{"c2", "shop", "b", false, service},
				{"c3", "shop", "a", false, crd}, {"c3", "shop", "b", false, crd},
			},
		},
		"Shared": {
			why: "the version of the API does not distinguish objects",
			list: []deployment{
				{"c1", "shop", "a", false, service}, {"c1", "shop", "b", false, service},
				{"c2", "shop", "b", false, service}, {"c2", "shop", "a", false, service},
				{"c3", "shop", "a", false, role}, {"c3", "shop", "b", false, older},
			},
			want: []Finding{{
				Check: Objects, Verdict: Warn,
				Message: "two bundles of one repository have the same object, 2 times: ClusterRole reader in fleet-default/a and fleet-default/b (1 clusters), " +
					"Service web/web in fleet-default/a and fleet-default/b (2 clusters)",
				Hint: "the next version of the one that does not own it is refused; remove it from one of them: docs/drift.md#one-object-two-bundles",
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Observed{}
			for _, d := range c.list {
				bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.bundle, Labels: map[string]string{
					fleet.LabelRepoName: d.repo, fleet.LabelBundleName: d.bundle, fleet.LabelBundleNamespace: fleet.NamespaceDefault,
				}}}
				bd.Spec.Options.Helm = &fleet.HelmOptions{TakeOwnership: d.takes}
				bd.Status.Resources = []fleet.BundleDeploymentResource{d.has}
				s.Shared.Add(bd)
			}
			if diff := cmp.Diff(c.want, sharedFindings(s)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
