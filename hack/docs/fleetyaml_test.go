package docs

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// fleetYAML is a block of a page that shows a fleet.yaml.
var fleetYAML = regexp.MustCompile("(?s)\n```yaml[^\n]*\n(# fleet.yaml.*?)```")

// Each fleet.yaml that a page shows is one that is read without a finding; a
// maxUnavailable of 0, which freezes updates, is meant in docs/rollout.md.
func TestFleetYAMLInPages(t *testing.T) {
	for _, name := range []string{"fleet-yaml.md", "targeting.md", "rollout.md", "sources.md"} {
		found := fleetYAML.FindAllStringSubmatch(page(t, name), -1)
		if len(found) == 0 {
			t.Errorf("docs/%s shows no fleet.yaml", name)
		}
		for _, block := range found {
			_, findings := fleetyaml.Parse("fleet.yaml", []byte(block[1]))
			for _, f := range findings {
				if !strings.Contains(block[1], "maxUnavailable: 0") {
					t.Errorf("docs/%s: %s\n%s", name, f.Short(), block[1])
				}
			}
		}
	}
}

// What docs/fleet-yaml.md says of helm.valuesFiles: at the top level they are
// used only with helm.chart, in a customization always.
func TestValuesFilesNeedAChart(t *testing.T) {
	for name, c := range map[string]struct {
		text         string
		root, target map[string]any
	}{
		"WithoutChart": {"helm: {valuesFiles: [more.yaml]}\n", nil, nil},
		"WithChart":    {"helm: {chart: ., valuesFiles: [more.yaml]}\n", map[string]any{"a": "b"}, nil},
		"Customized": {
			"targetCustomizations: [{name: x, clusterSelector: {}, helm: {valuesFiles: [more.yaml]}}]\n", nil, map[string]any{"a": "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"fleet.yaml": {Data: []byte(c.text)}, "more.yaml": {Data: []byte("a: b\n")},
				"Chart.yaml":        {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")},
				"templates/cm.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
			}
			repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "apps", Namespace: "fleet-default"}}
			repo.Spec.Targets = []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{}}}
			b := bundle.Read(tree, nil, nil, gitrepo.Options(repo, strings.Repeat("0", 40))).Results[0].Bundle
			if b == nil {
				t.Fatal("no Bundle")
			}
			if diff := cmp.Diff(c.root, values(b.Spec.Helm)); diff != "" {
				t.Errorf("at the top level\n-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.target, values(b.Spec.Targets[0].Helm)); diff != "" {
				t.Errorf("in the customization\n-want +got\n%s", diff)
			}
		})
	}
}

func values(h *fleet.HelmOptions) map[string]any {
	if h == nil || h.Values == nil {
		return nil
	}
	return h.Values.Data
}
