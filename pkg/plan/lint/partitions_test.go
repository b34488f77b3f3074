package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

func TestPartitions(t *testing.T) {
	const text = `rolloutStrategy:
  partitions:
  - name: canary
    clusterSelector: {matchLabels: {stage: canry}}
  - name: none
  - name: eu
    clusterSelector: {matchLabels: {region: eu}}
`
	file, _ := fleetyaml.Parse("web/fleet.yaml", []byte(text))
	clusters := []*target.Cluster{{Name: "c1", Labels: map[string]string{"region": "eu"}}, {Name: "c2"}, {Name: "c3"}, {Name: "c4"}, {Name: "c5"}}
	want := []string{
		`web/fleet.yaml:3:5: warning: partition "canary" selects none of the clusters in fleet.txt that get the bundle [unreachable]`,
		`web/fleet.yaml:3:3: warning: clusters in no partition never get the bundle: c2, c3, c4, 1 more [unreachable]`,
	}
	var got []string
	for _, f := range Partitions(&file, clusters, "fleet.txt") {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Partitions(&fleetyaml.File{}, clusters, "x"); got != nil {
		t.Errorf("no partitions: %v", got)
	}
}
