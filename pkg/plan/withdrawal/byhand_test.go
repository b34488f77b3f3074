package withdrawal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What a person deletes by hand is listed with what goes along, and is above the budget
// as a change would be.
func TestRemovalByHand(t *testing.T) {
	bd := func(bundle, cluster string, keep bool, kinds ...string) *fleet.BundleDeployment {
		out := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{UID: types.UID(bundle + cluster), Labels: map[string]string{
			fleet.LabelBundleName: bundle, fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: "ws",
		}}}
		out.Spec.Options.KeepResources = keep
		for _, kind := range kinds {
			out.Status.Resources = append(out.Status.Resources, fleet.BundleDeploymentResource{Kind: kind, Namespace: "pos", Name: "data"})
		}
		return out
	}
	bundles := func(keep bool, names ...string) (out []*fleet.Bundle) {
		for _, name := range names {
			b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
			b.Spec.KeepResources = keep
			out = append(out, b)
		}
		return out
	}
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "r"}}
	cases := map[string]struct {
		why  string
		r    Removal
		want []string
		held bool
	}{
		"Few": {
			why: "three are within every budget",
			r:   RemovalOfRepo(repo, bundles(false, "a", "b", "c"), []*fleet.BundleDeployment{bd("a", "c1", false)}), want: []string{"bundle a", "bundle b", "bundle c"},
		},
		"Many": {
			why: "four are not", r: RemovalOfRepo(repo, bundles(false, "a", "b", "c", "d"), nil),
			want: []string{"bundle a", "bundle b", "bundle c", "bundle d"}, held: true,
		},
		"Volume": {
			why:  "a volume is precious",
			r:    RemovalOfRepo(repo, bundles(false, "a"), []*fleet.BundleDeployment{bd("a", "c1", false, "ConfigMap", "PersistentVolumeClaim")}),
			want: []string{"PersistentVolumeClaim pos/data on ws/c1", "bundle a"}, held: true,
		},
		"Kept": {
			why: "nothing is removed",
			r:   RemovalOfRepo(repo, bundles(true, "a"), []*fleet.BundleDeployment{bd("a", "c1", true, "PersistentVolumeClaim")}),
		},
		"NotKeptYet": {
			why:  "one cluster does not know yet that everything is kept",
			r:    RemovalOfRepo(repo, bundles(true, "a"), []*fleet.BundleDeployment{bd("a", "c1", true), bd("a", "c2", false)}),
			want: []string{"bundle a"},
		},
		"Bundle": {
			why:  "each of its deployments counts",
			r:    RemovalOfBundle(bundles(false, "a")[0], []*fleet.BundleDeployment{bd("a", "c2", false), bd("a", "c1", false), bd("a", "c3", true)}),
			want: []string{"deployment ws/c1", "deployment ws/c2"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := Announce(c.r)
			if diff := cmp.Diff(c.want, v.List); diff != "" && len(c.want)+len(v.List) > 0 {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if v.Held != c.held || v.Hash == "" {
				t.Errorf("%s: %+v", c.why, v)
			}
		})
	}
}

func TestClusters(t *testing.T) {
	of := func(name string) *fleet.BundleDeployment {
		return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{fleet.LabelClusterNamespace: "ws", fleet.LabelCluster: name}}}
	}
	if diff := cmp.Diff([]string{"ws/a", "ws/b"}, Clusters([]*fleet.BundleDeployment{of("b"), of("a"), of("b")})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
