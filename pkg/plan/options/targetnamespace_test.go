package options

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRefused(t *testing.T) {
	production := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod", "team": "a"}}
	cases := map[string]struct {
		why      string
		selector *metav1.LabelSelector
		labels   map[string]string
		missing  bool
		want     string
	}{
		"None":        {why: "without a selector every namespace will do, also one that is made on the way", missing: true},
		"Matches":     {why: "all labels are there", selector: production, labels: map[string]string{"env": "prod", "team": "a", "x": "y"}},
		"AnyThere":    {why: "an empty selector asks for nothing but a namespace", selector: &metav1.LabelSelector{}},
		"AnyMissing":  {why: "but for that", selector: &metav1.LabelSelector{}, missing: true, want: `target namespace "web" does not exist; allowedTargetNamespaceSelector asks for one with labels any`},
		"Missing":     {why: "who may make a namespace could give it any label", selector: production, missing: true, want: `target namespace "web" does not exist; allowedTargetNamespaceSelector asks for one with labels env=prod,team=a`},
		"Differs":     {why: "one of two is not enough", selector: production, labels: map[string]string{"env": "prod", "team": "b", "x": "y"}, want: `target namespace "web" does not match allowedTargetNamespaceSelector: it needs labels env=prod,team=a, it has env=prod, team=b`},
		"Bare":        {why: "a namespace without labels", selector: production, want: `target namespace "web" does not match allowedTargetNamespaceSelector: it needs labels env=prod,team=a, it has none of them`},
		"Expression":  {why: "expressions count", selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}}}}, labels: map[string]string{"env": "prod"}, want: `target namespace "web" does not match allowedTargetNamespaceSelector: it needs labels env notin (prod), it has env=prod`},
		"Unreadable":  {why: "what cannot be understood allows nothing", selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}, want: `allowedTargetNamespaceSelector cannot be read: "Like" is not a valid label selector operator`},
		"ExistsLabel": {why: "a label with any value", selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}, labels: map[string]string{"env": ""}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: c.selector}
			if got := TargetNamespaceRefusal(o, "web", c.labels, !c.missing); got != c.want {
				t.Errorf("%s\nwant %s\ngot  %s", c.why, c.want, got)
			}
		})
	}
}
