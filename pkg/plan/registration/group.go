package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// GroupLabels returns the labels with which a Cluster belongs to a group: those that the
// group's matchLabels ask for. The error says why no labels bring a Cluster into it. A
// token may not give reserved labels, except LabelGroup.
func GroupLabels(g *fleet.ClusterGroup) (map[string]string, error) {
	refuse := func(why string) (map[string]string, error) {
		return nil, fmt.Errorf("labels cannot bring a cluster into ClusterGroup %q: %s", g.Name, why)
	}
	if g.Spec.Selector == nil {
		return refuse("it has no selector, so no cluster belongs to it")
	}
	selector, err := metav1.LabelSelectorAsSelector(g.Spec.Selector)
	if err != nil {
		return refuse("its selector is not valid: " + err.Error())
	}
	given := maps.Clone(g.Spec.Selector.MatchLabels)
	if given == nil {
		given = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if why := refusal(key, given[key]); why != "" && key != fleet.LabelGroup || key == fleet.LabelCreatedByAgentPod {
			return refuse(fmt.Sprintf("its matchLabels ask for %q, and labels of Fleet and Rancher are not given by tokens", key))
		}
	}
	if !selector.Matches(labels.Set(given)) {
		return refuse("its matchExpressions want " + unmetRequirements(g.Spec.Selector, given) + ", and only matchLabels say which value to give")
	}
	return given, nil
}

// unmetRequirements are the requirements of a selector that labels do not meet.
func unmetRequirements(s *metav1.LabelSelector, have map[string]string) string {
	var out []string
	for _, e := range s.MatchExpressions {
		one, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
		if err != nil || one.Matches(labels.Set(have)) {
			continue
		}
		text := e.Key + " " + string(e.Operator)
		if len(e.Values) > 0 {
			text += " (" + strings.Join(e.Values, ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " and ")
}

// NewGroup returns the group that is made for a token that names one which does not exist.
// Only the manager and people put clusters into it.
func NewGroup(namespace, name string) *fleet.ClusterGroup {
	return &fleet.ClusterGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "ClusterGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{fleet.LabelGroup: name},
		}},
	}
}

// GroupOf returns the group whose token brought a Cluster in; empty where none did. The
// manager notes it when it makes the Cluster. A Cluster of an earlier version has the label
// that only tokens and users give.
func GroupOf(c *fleet.Cluster) string {
	group := c.Annotations[fleet.AnnotationTokenGroup]
	if group == "" && c.Name == naming.RegisteredCluster(c.Spec.ClientID) {
		group = c.Labels[fleet.LabelGroup]
	}
	return group
}

// TokenGroup returns the group whose labels clusters get that join by a token; empty where
// there is none.
func TokenGroup(t *fleet.ClusterRegistrationToken) string {
	return t.Annotations[fleet.AnnotationTokenGroup]
}
