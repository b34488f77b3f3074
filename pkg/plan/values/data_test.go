package values_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// TestData: everything that a template may ask for, and how it is asked for.
func TestData(t *testing.T) {
	none := values.ClusterFacts{Name: "none", Namespace: "ns", Labels: map[string]string{"a": "b"}}
	cases := map[string]struct {
		why      string
		on       values.ClusterFacts
		template string
		want     any
	}{
		"ClusterName":         {"the name of the Cluster", east, "${ .ClusterName }", "east"},
		"ClusterNamespace":    {"its workspace", east, "${ .ClusterNamespace }", "fleet-default"},
		"Label":               {"a label", east, "${ .ClusterLabels.env }", "prod"},
		"LabelWithSlash":      {"most labels have a prefix", east, `${ index .ClusterLabels "example.com/team" }`, "a"},
		"LabelOfFleet":        {"Fleet's and Rancher's own are there", east, `${ get .ClusterLabels "management.cattle.io/cluster-name" }`, "c-1"},
		"LabelOfOthers":       {"internal ones are not", east, `${ hasKey .ClusterLabels "objectset.rio.cattle.io/hash" }`, false},
		"LabelOfKubectl":      {"internal ones are not", east, `${ hasKey .ClusterLabels "kubectl.kubernetes.io/x" }`, false},
		"LabelOrDefault":      {"how to ask for what may not be there", east, `${ get .ClusterLabels "none" | default "dev" }`, "dev"},
		"NoLabelByGet":        {"asked for without a default, it is null", east, `${ get .ClusterLabels "none" }`, nil},
		"NoLabelByIndex":      {"what Go templates print for nothing", east, `${ index .ClusterLabels "none" }`, "<no value>"},
		"Labels":              {"dictionary functions take them", east, `${ keys .ClusterLabels | len }`, 4.0},
		"Annotation":          {"an annotation", east, "${ .ClusterAnnotations.note | quote }", "n"},
		"AnnotationOfFleet":   {"of annotations none of Fleet's", east, `${ hasKey .ClusterAnnotations "fleet.cattle.io/manager" }`, false},
		"NoAnnotations":       {"none is an empty map", none, `${ len .ClusterAnnotations }`, 0.0},
		"ClusterValues":       {"templateValues of the Cluster", east, "${ .ClusterValues.nested.k }", "v"},
		"ClusterValuesAsYAML": {"whole trees", east, "${ .ClusterValues.nested | toJson }", m{"k": "v"}},
		"NoClusterValues":     {"none is an empty map", none, `${ len .ClusterValues }`, 0.0},
		"TrueOfLabel":         {"quoting decides the type (trap 13)", values.ClusterFacts{Name: "x", Labels: map[string]string{"on": "true"}}, "${ .ClusterLabels.on }", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: map[string]string{"x": c.template}}}
			got, err := values.Render(o, c.on, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Helm.Values.Data["x"]); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// TestMissingData: what is not there stops the cluster, and the message names it.
func TestMissingData(t *testing.T) {
	for template, part := range map[string]string{
		"${ .ClusterLabels.none }":            "no value for .Cluster",
		"${ .ClusterAnnotations.none }":       "no value for .Cluster",
		"${ .ClusterValues.none }":            "no value for .Cluster",
		"${ .ClusterValues.none.deep }":       "no value for .Cluster",
		"${ .Values.x }":                      "there is no .Values",
		"${ .Release.Name }":                  "there is no .Release",
		`${ include "x" . }`:                  `"include" not defined`,
		`${ tpl "x" . }`:                      `"tpl" not defined`,
		`${ env "HOME" }`:                     `"env" not defined`,
		`${ expandenv "$HOME" }`:              `"expandenv" not defined`,
		`${ getHostByName "a" }`:              `"getHostByName" not defined`,
		`${ lookup "v1" "Secret" "" "" }`:     `"lookup" not defined`,
		`${ required "say it" .ClusterName }`: `"required" not defined`,
		`${ fail "not here" }`:                "not here",
	} {
		o := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: map[string]string{"x": template}}}
		_, err := values.Render(o, east, nil)
		var p *reconcile.Terminal
		if !errors.As(err, &p) || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), `cluster "east"`) {
			t.Errorf("%s: got %v, want something about %s", template, err, part)
		}
	}
}

// TestFunctions: sprig's functions for texts, all but those that reach out of the
// template.
func TestFunctions(t *testing.T) {
	var missing []string
	for name := range sprig.TxtFuncMap() {
		o := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: map[string]string{
			"x": fmt.Sprintf(`${ if false }${ %s }${ end }`, name)}}}
		if _, err := values.Render(o, east, nil); err != nil && strings.Contains(err.Error(), "not defined") {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if diff := cmp.Diff([]string{"env", "expandenv", "getHostByName"}, missing); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
