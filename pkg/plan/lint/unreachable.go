package lint

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// unreachable finds customizations and targets that apply to no cluster: those without
// criteria, and those behind one that certainly matches all of their clusters. It does not
// report what cannot be proved.
func (c *check) unreachable() {
	for i := range c.file.Spec.Targets {
		place, _ := c.file.Target(i)
		if asksNothing(criteriaOf(&c.file.Spec.Targets[i])) {
			c.addWarning(finding.RuleUnreachable, fmt.Sprintf("customization %s is never used: it has no criteria and matches no cluster", c.targetTitle(i)),
				c.criteriaMeant(place), place...)
			continue
		}
		first := c.coveringTarget(i)
		if first < 0 {
			continue
		}
		line, _ := c.file.AtTarget(first)
		c.addWarning(finding.RuleUnreachable, fmt.Sprintf("customization %s is never used", c.targetTitle(i)),
			fmt.Sprintf("%s (line %d) matches the same clusters first; put %s before it", c.targetTitle(first), line, c.targetTitle(i)), place...)
	}
	for i, t := range c.file.OverrideTargets {
		entry := bundle.TargetOf(t)
		if asksNothing(criteriaOf(&entry)) {
			c.addWarning(finding.RuleUnreachable, fmt.Sprintf("overrideTargets[%d] has no criteria and matches no cluster", i),
				c.criteriaMeant([]any{"overrideTargets", i}), "overrideTargets", i)
		}
	}
}

// criteria are the keys by which a target selects clusters.
var criteria = []string{"clusterSelector", "clusterName", "clusterGroup", "clusterGroupSelector"}

// criteriaMeant suggests the criterion that a target without criteria probably
// meant.
func (c *check) criteriaMeant(place []any) string {
	for _, key := range c.file.Keys(place...) {
		switch near := spelling.Nearest(key, criteria); {
		case slices.Contains(criteria, key), key == "name", key == "namespace":
		case key == fleetyaml.ClusterLabels:
			return fleetyaml.HintClusterLabels
		case key == "matchLabels", key == "matchExpressions":
			return fmt.Sprintf("%s belongs below clusterSelector: indent it one level deeper", key)
		case near != "":
			return fmt.Sprintf("%s is no criterion; did you mean %s?", printable.Line(key), near)
		}
	}
	return "clusterSelector: {} matches every cluster"
}

// warnWithoutOptions finds customizations that set no option: their author usually means the targets
// of a GitRepo. One before another takes its clusters from that one, so it changes
// nothing only where no cluster fits an entry behind it that sets an option.
func (c *check) warnWithoutOptions() {
	targets := c.file.Spec.Targets
	for i := range targets {
		place, _ := c.file.Target(i)
		if !setsNothing(targets[i]) || asksNothing(criteriaOf(&targets[i])) || c.coveringTarget(i) >= 0 || c.mayShield(i) {
			continue
		}
		c.addWarning(finding.RuleUnreachable, fmt.Sprintf("customization %s sets no option", c.targetTitle(i)),
			"the targets of the GitRepo select the clusters, or overrideTargets here; only fleet apply takes customizations for targets", place...)
	}
}

// mayShield reports whether target i may take clusters from one behind it that sets an
// option.
func (c *check) mayShield(i int) bool {
	targets := c.file.Spec.Targets
	if c.file.Spec.TargetCustomizationMode == fleet.TargetCustomizationAllMatches {
		return false
	}
	return slices.ContainsFunc(targets[i+1:], func(behind fleet.BundleTarget) bool {
		return !setsNothing(behind) && !certainlyDisjoint(criteriaOf(&targets[i]), criteriaOf(&behind))
	})
}

// setsNothing reports whether a customization is nothing but criteria.
func setsNothing(t fleet.BundleTarget) bool {
	t.Name, t.ClusterName, t.ClusterSelector, t.ClusterGroup, t.ClusterGroupSelector = "", "", nil, "", nil
	if h := t.Helm; h != nil {
		helm := *h
		if helm.Values != nil && len(helm.Values.Data) == 0 {
			helm.Values = nil
		}
		t.Helm = nonzero(&helm)
	}
	t.YAML, t.Kustomize, t.Diff = nonzero(t.YAML), nonzero(t.Kustomize), nonzero(t.Diff)
	return equality.Semantic.DeepEqual(t, fleet.BundleTarget{})
}

// nonzero is p, or nil where nothing is set in what it points to.
func nonzero[T any](p *T) *T {
	if p == nil || equality.Semantic.DeepEqual(*p, *new(T)) {
		return nil
	}
	return p
}

// certainlyDisjoint reports whether certainly no cluster matches both a and b.
func certainlyDisjoint(a, b target.Criteria) bool {
	if a.ClusterSelector == nil || b.ClusterSelector == nil {
		return false
	}
	for _, x := range requirements(a.ClusterSelector) {
		if x.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		for _, y := range requirements(b.ClusterSelector) {
			differs := y.Operator == metav1.LabelSelectorOpIn && !slices.ContainsFunc(x.Values, func(v string) bool { return slices.Contains(y.Values, v) })
			if x.Key == y.Key && differs {
				return true
			}
		}
	}
	return false
}

// coveringTarget is the first target before target i that certainly matches all of its
// clusters, and so takes them; -1 if there is none.
func (c *check) coveringTarget(i int) int {
	targets := c.file.Spec.Targets
	if c.file.Spec.TargetCustomizationMode == fleet.TargetCustomizationAllMatches {
		return -1
	}
	return slices.IndexFunc(targets[:i], func(before fleet.BundleTarget) bool {
		return certainlyCovers(criteriaOf(&before), criteriaOf(&targets[i]))
	})
}

// criteriaOf are the criteria of a target.
func criteriaOf(t *fleet.BundleTarget) target.Criteria {
	return target.Criteria{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector,
		ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector,
	}
}

func asksNothing(c target.Criteria) bool {
	return c.ClusterName == "" && c.ClusterSelector == nil && c.ClusterGroup == "" && c.ClusterGroupSelector == nil
}

// certainlyCovers reports whether a certainly matches every cluster that b matches, through
// the same group.
func certainlyCovers(a, b target.Criteria) bool {
	return !asksNothing(a) &&
		(a.ClusterName == "" || a.ClusterName == b.ClusterName) &&
		(a.ClusterGroup == "" || a.ClusterGroup == b.ClusterGroup) &&
		implied(a.ClusterSelector, b.ClusterSelector) &&
		implied(a.ClusterGroupSelector, b.ClusterGroupSelector)
}

// implied reports whether everything that b selects certainly meets a.
func implied(a, b *metav1.LabelSelector) bool {
	if a == nil {
		return true
	}
	known := requirements(b)
	for _, wanted := range requirements(a) {
		if !slices.ContainsFunc(known, func(r metav1.LabelSelectorRequirement) bool { return certainlyImplies(r, wanted) }) {
			return false
		}
	}
	return true
}

// requirements are the labels and expressions of a selector, all as
// expressions.
func requirements(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if s == nil {
		return nil
	}
	list := slices.Clone(s.MatchExpressions)
	for key, value := range s.MatchLabels {
		list = append(list, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	return list
}

// certainlyImplies reports whether a label that meets one expression certainly meets
// another.
func certainlyImplies(has, wants metav1.LabelSelectorRequirement) bool {
	if has.Key != wants.Key {
		return false
	}
	in := func(list []string) func(string) bool {
		return func(v string) bool { return slices.Contains(list, v) }
	}
	every := func(list []string, f func(string) bool) bool {
		return !slices.ContainsFunc(list, func(v string) bool { return !f(v) })
	}
	switch wants.Operator {
	case metav1.LabelSelectorOpIn:
		return has.Operator == metav1.LabelSelectorOpIn && every(has.Values, in(wants.Values))
	case metav1.LabelSelectorOpExists:
		return has.Operator == metav1.LabelSelectorOpIn || has.Operator == metav1.LabelSelectorOpExists
	case metav1.LabelSelectorOpDoesNotExist:
		return has.Operator == metav1.LabelSelectorOpDoesNotExist
	case metav1.LabelSelectorOpNotIn:
		return has.Operator == metav1.LabelSelectorOpDoesNotExist ||
			has.Operator == metav1.LabelSelectorOpNotIn && every(wants.Values, in(has.Values)) ||
			has.Operator == metav1.LabelSelectorOpIn && !slices.ContainsFunc(has.Values, in(wants.Values))
	}
	return false
}
