package policy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// addSelector merges the selector of a restriction into those of earlier ones: labels are
// joined, and a later restriction replaces the value of a label; expressions are joined.
func (l *Limits) addSelector(o Object, s *metav1.LabelSelector) {
	l.selector.add(o)
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil && l.selector.fault == nil {
		l.selector.fault = newViolation(rule{l.selector.name, []Object{o}}, "%s of %s: %s", l.selector.name, o, err)
	}
	if l.selector.merged == nil {
		l.selector.merged = s.DeepCopy()
		return
	}
	m := l.selector.merged
	if m.MatchLabels == nil && s.MatchLabels != nil {
		m.MatchLabels = map[string]string{}
	}
	maps.Copy(m.MatchLabels, s.MatchLabels)
	m.MatchExpressions = joinExpressions(m.MatchExpressions, s.MatchExpressions)
}

// checkSelector sets the fault of a merged selector that is not valid although its parts
// are.
func (l *Limits) checkSelector() {
	if _, err := metav1.LabelSelectorAsSelector(l.selector.merged); err != nil && l.selector.fault == nil {
		l.selector.fault = newViolation(l.selector.rule, "%s: %s", l.selector.name, err)
	}
}

// andSelectors returns a selector that matches what both match. own is nil for none. If both
// ask for different values of a label, nothing matches.
func andSelectors(limit, own *metav1.LabelSelector) *metav1.LabelSelector {
	out := limit.DeepCopy()
	if own == nil {
		return out
	}
	var also []metav1.LabelSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(own.MatchLabels)) {
		value := own.MatchLabels[key]
		switch have, there := out.MatchLabels[key]; {
		case !there:
			if out.MatchLabels == nil {
				out.MatchLabels = map[string]string{}
			}
			out.MatchLabels[key] = value
		case have != value:
			also = append(also, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
	}
	out.MatchExpressions = joinExpressions(out.MatchExpressions, append(also, own.DeepCopy().MatchExpressions...))
	return out
}

// joinExpressions appends the expressions that are not in the list yet.
func joinExpressions(list, more []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
	for _, e := range more {
		if !slices.ContainsFunc(list, func(have metav1.LabelSelectorRequirement) bool { return equality.Semantic.DeepEqual(have, e) }) {
			list = append(list, *e.DeepCopy())
		}
	}
	return list
}

// Namespaces are the limits of namespaces that have any.
type Namespaces map[string]*Limits

// Of joins objects by their namespaces.
func Of(restrictions []*fleet.GitRepoRestriction, policies []*fleet.Policy) Namespaces {
	type objects struct {
		restrictions []*fleet.GitRepoRestriction
		policies     []*fleet.Policy
	}
	all := map[string]objects{}
	for _, r := range restrictions {
		o := all[r.Namespace]
		o.restrictions = append(o.restrictions, r)
		all[r.Namespace] = o
	}
	for _, p := range policies {
		o := all[p.Namespace]
		o.policies = append(o.policies, p)
		all[p.Namespace] = o
	}
	out := Namespaces{}
	for namespace, o := range all {
		out[namespace] = Aggregate(o.restrictions, o.policies)
	}
	return out
}
