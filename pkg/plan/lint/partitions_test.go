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
  - name: key
    clusterSelector: {matchLabels: {regoin: eu}}
  - name: value
    clusterSelector: {matchLabels: {region: eu-wst}}
  - name: values
    clusterSelector: {matchExpressions: [{key: region, operator: In, values: [asia, africa]}]}
`
	file, _ := fleetyaml.Parse("web/fleet.yaml", []byte(text))
	clusters := []*target.Cluster{{Name: "c1", Labels: map[string]string{"region": "eu"}}, {Name: "c0", Labels: map[string]string{"region": "eu-west"}}, {Name: "c2"}, {Name: "c3"}, {Name: "c4"}, {Name: "c5"}}
	want := []string{
		`web/fleet.yaml:3:5: warning: partition "canary" selects none of the clusters in fleet.txt that get the bundle [unreachable] (none of them has the label stage)`,
		`web/fleet.yaml:6:5: warning: partition "eu" selects 1 of the clusters in fleet.txt, and all of them may be unavailable: the partitions after it do not wait for it [unreachable] (give it more clusters than its maxUnavailable)`,
		`web/fleet.yaml:8:5: warning: partition "key" selects none of the clusters in fleet.txt that get the bundle [unreachable] (none of them has the label regoin; did you mean region?)`,
		`web/fleet.yaml:10:5: warning: partition "value" selects none of the clusters in fleet.txt that get the bundle [unreachable] (none of them has region=eu-wst; did you mean eu-west?)`,
		`web/fleet.yaml:12:5: warning: partition "values" selects none of the clusters in fleet.txt that get the bundle [unreachable] (they have for region: eu, eu-west)`,
		`web/fleet.yaml:3:3: warning: clusters in no partition never get the bundle: c0, c2, c3, 2 more [unreachable] (add a last partition with clusterSelector: {})`,
	}
	got := texts(Partitions(&file, clusters, "fleet.txt"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Partitions(&fleetyaml.File{}, clusters, "x"); got != nil {
		t.Errorf("no partitions: %v", got)
	}
}

// A partition that never holds back the next one has a warning, whichever form its limit has.
func TestPartitionsThatNeverHold(t *testing.T) {
	clusters := []*target.Cluster{{Name: "c1", Labels: map[string]string{"ring": "canary"}}, {Name: "c2", Labels: map[string]string{"ring": "canary"}}, {Name: "c3"}}
	for limit, warns := range map[string]bool{"1": false, "50%": false, "2": true, "100%": true} {
		text := "rolloutStrategy:\n  partitions:\n  - {name: canary, maxUnavailable: " + limit + ", clusterSelector: {matchLabels: {ring: canary}}}\n  - {name: rest, clusterSelector: {}}\n"
		file, _ := fleetyaml.Parse("web/fleet.yaml", []byte(text))
		if got := texts(Partitions(&file, clusters, "fleet.txt")); len(got) > 0 != warns {
			t.Errorf("maxUnavailable %s: %v", limit, got)
		}
	}
}
