package fleetyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Templates are rendered in values alone. Elsewhere a finding says so, and no second
// one what such a text is not.
func TestTemplatesAreNotRendered(t *testing.T) {
	const text = `namespace: "${ .ClusterLabels.env }"
name: "x-${ .ClusterLabels.env }"
labels:
  env: "${ .ClusterLabels.env }"
annotations:
  home: "${HOME}"
  team: "${ .ClusterLabels.team }"
helm:
  releaseName: "${ .ClusterName }"
  valuesFiles: ["values-${ .ClusterLabels.env }.yaml"]
  values:
    a: "${ .ClusterLabels.env }"
  templateValues:
    b: "${ .ClusterLabels.env }"
kustomize:
  dir: "overlays/${ .ClusterLabels.env }"
targetCustomizations:
- clusterName: "${ .ClusterName }"
  namespace: "${ .ClusterLabels.env }"
  helm:
    values:
      c: "${ .ClusterLabels.env }"
`
	const hint = " (" + HintTemplates + ")"
	want := []string{
		"f:1:12: error: namespace holds ${ }, and templates are not rendered there [value]" + hint,
		"f:2:7: error: name holds ${ }, and templates are not rendered there [value]" + hint,
		"f:4:8: error: labels.env holds ${ }, and templates are not rendered there [value]" + hint,
		"f:7:9: warning: annotations.team holds ${ }, and templates are not rendered there [not-rendered]" + hint,
		"f:9:16: error: helm.releaseName holds ${ }, and templates are not rendered there [value]" + hint,
		"f:10:17: error: helm.valuesFiles[0] holds ${ }, and templates are not rendered there [not-rendered]" + hint,
		"f:18:16: warning: targetCustomizations[0].clusterName holds ${ }, and templates are not rendered there [not-rendered]" + hint,
		"f:19:14: error: targetCustomizations[0].namespace holds ${ }, and templates are not rendered there [value]" + hint,
	}
	_, found := Parse("f", []byte(text))
	var got []string
	for _, f := range found {
		got = append(got, f.String()+" ("+f.Hint+")")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
