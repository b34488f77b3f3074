package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

func TestMatchless(t *testing.T) {
	clusters := []*target.Cluster{
		{Name: "c1", Labels: map[string]string{"env": "prod"}, Groups: []target.Group{{Name: "eu"}}},
		{Name: "c2", Labels: map[string]string{"env": "dev"}},
	}
	named := Known{Where: "c.yaml", Clusters: []string{"c1", "c2"}}
	grouped := Known{Where: "c.yaml", Clusters: []string{"c1", "c2"}, Groups: []string{"eu", "us"}}
	cases := map[string]struct {
		why   string
		yaml  string
		known Known
		want  []string
	}{
		"Customization": {
			yaml:  "targetCustomizations:\n- name: prod\n  clusterSelector: {matchLabels: {env: prod}}\n- name: stage\n  clusterSelector: {matchLabels: {env: staging}}\n  doNotDeploy: true\n",
			known: named,
			want:  []string{`f:4:3: warning: customization "stage" matches none of the clusters in c.yaml [unreachable] (it wants env=staging, c1 has env=prod)`},
		},
		"Override": {
			yaml:  "overrideTargets:\n- clusterSelector: {matchLabels: {env: prod}}\n- clusterSelector: {matchLabels: {tier: a}}\n- {name: b, clusterName: c1, clusterSelector: {matchLabels: {env: dev}}}\n",
			known: named,
			want: []string{
				`f:3:3: warning: overrideTargets[1] matches none of the clusters in c.yaml [unreachable] (it wants tier=a, c1 has no label tier)`,
				`f:4:3: warning: target "b" of overrideTargets matches none of the clusters in c.yaml [unreachable] (it wants clusterName c1 and env=dev, c1 has env=prod)`,
			},
		},
		"Group": {
			yaml: "targetCustomizations:\n- clusterGroup: eu\n- clusterGroup: us\n- clusterGroupSelector: {matchLabels: {a: b}}\n", known: grouped,
			want: []string{
				`f:3:3: warning: customization 2 of targetCustomizations matches none of the clusters in c.yaml [unreachable] (it wants clusterGroup us, c1 is in eu)`,
				`f:4:3: warning: customization 3 of targetCustomizations matches none of the clusters in c.yaml [unreachable] (it wants clusterGroupSelector a=b, c1 is in eu)`,
			},
		},
		"GroupsNotKnown": {
			why:  "a file with Clusters alone says nothing of groups",
			yaml: "targetCustomizations:\n- clusterGroup: eu\n- clusterGroupSelector: {matchLabels: {a: b}}\n", known: named,
		},
		"SaidElsewhere": {
			why:  "one finding for one mistake",
			yaml: "targetCustomizations:\n- clusterName: c9\n- clusterGroup: asia\n- namespace: a\n- clusterSelector: {}\n- clusterSelector: {matchLabels: {env: staging}}\n", known: grouped,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file, _ := fleetyaml.Parse("f", []byte(c.yaml))
			if diff := cmp.Diff(c.want, texts(UnmatchedTargets(&file, clusters, c.known))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// texts are findings, each with its hint.
func texts(list []finding.Finding) []string {
	var out []string
	for _, f := range list {
		text := f.String()
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		out = append(out, text)
	}
	return out
}
