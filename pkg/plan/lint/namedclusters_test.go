package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

func TestUnknown(t *testing.T) {
	const text = `targetCustomizations:
- clusterName: c1
- clusterName: shop-frankfrut
- clusterGroup: eu
  namespace: a
- clusterGroup: ue
overrideTargets:
- clusterName: other
rolloutStrategy:
  partitions:
  - clusterName: c9
`
	file, found := fleetyaml.Parse("web/fleet.yaml", []byte(text))
	if len(found) > 0 {
		t.Fatal(found)
	}
	clusters, groups := NamedClusters(&file)
	if diff := cmp.Diff([][]string{{"c1", "c9", "other", "shop-frankfrut"}, {"eu", "ue"}}, [][]string{clusters, groups}); diff != "" {
		t.Error(diff)
	}
	c := &fleet.Cluster{}
	c.Name, c.Labels = "c-m-x7k2", map[string]string{fleet.LabelDisplayName: "shop-frankfurt"}
	known := Known{Where: "fleet-default", Clusters: append(target.NamesOf(c.Name, c.Labels), "c1"), Groups: []string{"eu", "default"}}
	want := []string{
		`web/fleet.yaml:3:16: warning: there is no cluster "shop-frankfrut" in fleet-default [unknown-cluster] (did you mean "shop-frankfurt"?)`,
		`web/fleet.yaml:6:17: warning: there is no cluster group "ue" in fleet-default [unknown-cluster]`,
		`web/fleet.yaml:8:16: warning: there is no cluster "other" in fleet-default [unknown-cluster]`,
		`web/fleet.yaml:11:18: warning: there is no cluster "c9" in fleet-default [unknown-cluster]`,
	}
	var got []string
	for _, f := range Unknown(&file, known) {
		text := f.String()
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Unknown(&file, Known{}); got != nil {
		t.Errorf("it is not known which there are: %v", got)
	}
}
