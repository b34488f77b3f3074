package options

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TargetNamespaceRefusal says why a deployment with these options may not go to its namespace:
// allowedTargetNamespaceSelector asks for one that exists and has certain
// labels. It is empty where it may. labels are those of the namespace, which
// has the name; exists reports whether there is one.
func TargetNamespaceRefusal(o fleet.BundleDeploymentOptions, namespace string, has map[string]string, exists bool) string {
	if o.AllowedTargetNamespaceSelector == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(o.AllowedTargetNamespaceSelector)
	if err != nil {
		return fmt.Sprintf("allowedTargetNamespaceSelector cannot be read: %s", err)
	}
	wanted := selector.String()
	if wanted == "" {
		wanted = "any"
	}
	switch {
	case !exists:
		return fmt.Sprintf("target namespace %q does not exist; allowedTargetNamespaceSelector asks for one with labels %s", namespace, wanted)
	case !selector.Matches(labels.Set(has)):
		return fmt.Sprintf("target namespace %q does not match allowedTargetNamespaceSelector: it needs labels %s, it has %s",
			namespace, wanted, selectedLabels(o.AllowedTargetNamespaceSelector, has))
	}
	return ""
}

// selectedLabels are the labels that a selector asks about, as they are.
func selectedLabels(s *metav1.LabelSelector, has map[string]string) string {
	keys := map[string]bool{}
	for k := range s.MatchLabels {
		keys[k] = true
	}
	for _, e := range s.MatchExpressions {
		keys[e.Key] = true
	}
	found := labels.Set{}
	for k := range keys {
		if v, ok := has[k]; ok {
			found[k] = v
		}
	}
	if len(found) == 0 {
		return "none of them"
	}
	return strings.ReplaceAll(found.String(), ",", ", ")
}
