package lint

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

func TestLabels(t *testing.T) {
	const null = ` [render] (null takes the chart's default away, and | default "x" sets one)`
	clusters := []map[string]string{{"env": "prod", "region": "eu"}, {"env": "dev"}}
	unlabelled := append(slices.Clone(clusters), map[string]string{"objectset.rio.cattle.io/hash": "a"})
	cases := map[string]struct {
		why   string
		value string
		on    []map[string]string
		want  string
	}{
		"Near":        {value: `${ get .ClusterLabels "regoin" }`, want: `f:3:8: warning: helm.values.a: none of the clusters in c.yaml has label "regoin" [render] (did you mean "region"?)`},
		"NearInIndex": {value: `x-${ index $.ClusterLabels "evn" | upper }`, want: `f:3:8: warning: helm.values.a: none of the clusters in c.yaml has label "evn" [render] (did you mean "env"?)`},
		"Far":         {value: `${ get .ClusterLabels "tier" }`, want: `f:3:8: warning: helm.values.a: the value is null: none of the clusters in c.yaml has label "tier"` + null},
		"Some":        {value: `${ get .ClusterLabels "region" }`, want: `f:3:8: warning: helm.values.a: the value is null for 1 of 2 clusters in c.yaml, which have no label "region"` + null},
		"Index":       {value: `${ index .ClusterLabels "region" }`, want: `f:3:8: warning: helm.values.a: the value is "<no value>" for 1 of 2 clusters in c.yaml, which have no label "region" [render] (get .ClusterLabels "region" | default "x" sets a default)`},
		"Default":     {why: "that is what the default is for", value: `${ get .ClusterLabels "region" | default "eu" }`},
		"FarDefault":  {why: "a label may come later", value: `${ get .ClusterLabels "tier" | default "x" }`},
		"PartOfAText": {why: "the text is not null", value: `a-${ get .ClusterLabels "region" }`},
		"Unlabelled":  {why: "no template is rendered there", value: `${ get .ClusterLabels "env" }`, on: unlabelled},
		"SomeOfAll":   {value: `${ get .ClusterLabels "region" }`, on: unlabelled, want: `f:3:8: warning: helm.values.a: the value is null for 1 of 3 clusters in c.yaml, which have no label "region"` + null},
		"NearOfAll":   {value: `${ get .ClusterLabels "regoin" }`, on: unlabelled, want: `f:3:8: warning: helm.values.a: none of the clusters in c.yaml has label "regoin" [render] (did you mean "region"?)`},
		"All":         {value: `${ get .ClusterLabels "env" }`},
		"Annotation":  {value: `${ get .ClusterAnnotations "regoin" }`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file, _ := fleetyaml.Parse("f", []byte("helm:\n  values:\n    a: '"+c.value+"'\n"))
			var want, got []string
			if c.want != "" {
				want = []string{c.want}
			}
			if c.on == nil {
				c.on = clusters
			}
			for _, f := range Labels(&file, c.on, "c.yaml") {
				got = append(got, f.String()+" ("+f.Hint+")")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
