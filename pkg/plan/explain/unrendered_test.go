package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestUnrendered: a cluster without labels that gets the text of a template as value is
// a warning, about the cluster and about the bundle.
func TestUnrendered(t *testing.T) {
	const one = "templates of values are not rendered for c1, which has no labels: the value is the text of the template; " +
		"with any label on the Cluster they are rendered"
	cases := map[string]struct {
		helm   *fleet.HelmOptions
		labels map[string]string
		target fleet.BundleTarget
		want   []string
	}{
		"Value":         {helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": "${ .ClusterName }"}}}, want: []string{one}},
		"TemplateValue": {helm: &fleet.HelmOptions{TemplateValues: map[string]string{"a": "${ .ClusterName }"}}, want: []string{one}},
		"Labelled":      {helm: &fleet.HelmOptions{TemplateValues: map[string]string{"a": "${ .ClusterName }"}}, labels: map[string]string{"a": "b"}},
		"NoTemplate":    {helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": "b"}}}},
		"SwitchedOff":   {helm: &fleet.HelmOptions{DisablePreProcess: true, Values: &fleet.GenericMap{Data: map[string]any{"a": "${ .ClusterName }"}}}},
		"NotMeant":      {helm: &fleet.HelmOptions{TemplateValues: map[string]string{"a": "${ .ClusterName }"}}, target: fleet.BundleTarget{ClusterName: "c2"}},
		"NoOptions":     {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := well()
			if c.target.ClusterName == "" {
				c.target.ClusterSelector = &metav1.LabelSelector{}
			}
			w.targeted(c.target)
			w.s.Bundle.Spec.Helm, w.at.Cluster.Labels = c.helm, c.labels
			if diff := cmp.Diff(c.want, Explain(w.s, w.at).Warnings); diff != "" {
				t.Errorf("of the cluster: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.want, Overview(w.s, []Place{w.at}).Warnings); diff != "" {
				t.Errorf("of the bundle: -want +got\n%s", diff)
			}
		})
	}
}

func TestUnrenderedClusters(t *testing.T) {
	w := well()
	w.targeted(fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}})
	w.s.Bundle.Spec.Helm, w.at.Cluster.Labels = &fleet.HelmOptions{TemplateValues: map[string]string{"a": "${ .ClusterName }"}}, nil
	other := w.at.Cluster.DeepCopy()
	other.Name = "c0"
	want := []string{"templates of values are not rendered for 2 clusters without labels, such as c0: the value is the text of the template; " +
		"with any label on the Cluster they are rendered"}
	if diff := cmp.Diff(want, Overview(w.s, []Place{w.at, {Key: keyOf(other), Cluster: other}}).Warnings); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
