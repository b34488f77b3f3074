package workspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

func TestHoldings(t *testing.T) {
	prov := func(name, record string) *provisioning.Cluster {
		return &provisioning.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: provisioning.ClusterStatus{ClusterName: record}}
	}
	ours := func(name, record string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{fleet.LabelManagementCluster: record}}}
	}
	record := func(name string) *management.Cluster {
		return &management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	going := record("c-m-00000009")
	going.DeletionTimestamp = &metav1.Time{}
	cases := map[string]struct {
		why  string
		held Holdings
		want []string
	}{
		"Nothing": {why: "an empty workspace may go"},
		"OneCluster": {
			why: "four objects are one cluster to people",
			held: Holdings{
				Provisioning: []*provisioning.Cluster{prov("c1", "c-m-1")}, Fleet: []*fleet.Cluster{ours("c1", "c-m-1")},
				Management: []*management.Cluster{record("c-m-1")}, ClusterAPI: []string{"c1"},
			},
			want: []string{"Cluster c1"},
		},
		"MovedHere": {
			why:  "a cluster that has moved has its provisioning Cluster in another workspace",
			held: Holdings{Fleet: []*fleet.Cluster{ours("c1", "c-m-1")}, Management: []*management.Cluster{record("c-m-1")}},
			want: []string{"Cluster c1"},
		},
		"NotReadyYet": {
			why:  "a cluster whose workspace goes before it is ready would never get one",
			held: Holdings{Management: []*management.Cluster{record("c-m-1")}},
			want: []string{"management Cluster c-m-1"},
		},
		"Going": {why: "what is on its way out holds nothing", held: Holdings{Management: []*management.Cluster{going}}},
		"ClusterAPI": {
			why:  "machines are deleted with the namespace, whatever controller made them",
			held: Holdings{ClusterAPI: []string{"capi"}},
			want: []string{"Cluster API Cluster capi"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.held.Names()); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestGuarded(t *testing.T) {
	unmanaged := &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationManaged: "false"}}}
	cases := map[string]struct {
		why      string
		w        *management.FleetWorkspace
		clusters []string
		want     bool
	}{
		"Holds":     {"its namespace goes with it, and the clusters with that", &management.FleetWorkspace{}, []string{"Cluster c"}, true},
		"Empty":     {"nothing of ours may be in Rancher's way", &management.FleetWorkspace{}, nil, false},
		"Unmanaged": {"its namespace stays", unmanaged, []string{"Cluster c"}, false},
	}
	for name, c := range cases {
		if got := Guarded(c.w, c.clusters); got != c.want {
			t.Errorf("%s: %s: got %v", name, c.why, got)
		}
	}
}

func TestServed(t *testing.T) {
	version := func(name string, served, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: storage}
	}
	cases := map[string]struct {
		why      string
		versions []apiextensionsv1.CustomResourceDefinitionVersion
		want     string
	}{
		"Stored":    {"no webhook has to convert it", []apiextensionsv1.CustomResourceDefinitionVersion{version("v1beta1", true, false), version("v1beta2", true, true)}, "v1beta2"},
		"NotServed": {"it cannot be asked for", []apiextensionsv1.CustomResourceDefinitionVersion{version("v2", false, true), version("v1", true, false)}, "v1"},
		"None":      {"there is nothing to ask for", nil, ""},
	}
	for name, c := range cases {
		got := Served(&apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: c.versions}})
		if got != c.want {
			t.Errorf("%s: %s: got %q", name, c.why, got)
		}
	}
}
