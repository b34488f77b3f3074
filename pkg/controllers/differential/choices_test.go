package differential_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// bundle is a random Bundle of that name.
func (m *model) bundle(name string) *fleet.Bundle {
	m.count++
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if m.percent(70) {
		b.Labels[fleet.LabelRepoName] = m.some("r", maxRepos)
	}
	if m.percent(40) {
		b.Labels["team"] = one(m, "red", "blue")
	}
	if m.percent(40) {
		b.Labels[fleet.LabelCommit] = fmt.Sprintf("commit%d", m.count)
	}
	text := fmt.Sprintf("v%d", m.count)
	if m.percent(10) {
		text = "v0" // as another one, or as before
	}
	s := &b.Spec
	s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: text}}
	s.Paused = m.percent(8)
	m.targeting(s)
	s.Helm = m.helm(25)
	s.RolloutStrategy = m.rollout()
	if m.percent(20) {
		s.DefaultNamespace = one(m, "apps", "web")
	}
	if m.percent(15) {
		s.NamespaceLabels = map[string]string{"a": one(m, "1", "2")}
	}
	if m.percent(15) {
		s.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
	}
	return b
}

// targeting is random targets, with or without restrictions.
func (m *model) targeting(s *fleet.BundleSpec) {
	s.Targets, s.TargetRestrictions = nil, nil
	for i := range 1 + m.rng.IntN(3) {
		t := fleet.BundleTarget{Name: fmt.Sprintf("t%d", i), DoNotDeploy: m.percent(12)}
		t.ClusterName, t.ClusterSelector, t.ClusterGroup, t.ClusterGroupSelector = m.criteria()
		if m.percent(30) {
			t.Helm = m.helm(10)
		}
		if m.percent(15) {
			t.NamespaceLabels = map[string]string{"b": one(m, "1", "2")}
		}
		if m.percent(15) {
			t.DefaultNamespace = one(m, "special", "other")
		}
		s.Targets = append(s.Targets, t)
	}
	if m.percent(5) {
		s.Targets = nil
	}
	if m.percent(30) {
		s.TargetCustomizationMode = one(m, fleet.TargetCustomizationAllMatches, fleet.TargetCustomizationFirstMatch)
		all := fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
		s.Targets = append(s.Targets, all)
		r := fleet.BundleTargetRestriction{Name: "r"}
		r.ClusterName, r.ClusterSelector, r.ClusterGroup, r.ClusterGroupSelector = m.criteria()
		s.TargetRestrictions = []fleet.BundleTargetRestriction{r}
	}
}

func (m *model) criteria() (cluster string, clusters *metav1.LabelSelector, group string, groups *metav1.LabelSelector) {
	switch m.rng.IntN(8) {
	case 0:
		return one(m, m.some("c", maxClusters), "shown"), nil, "", nil
	case 1:
		return "", nil, one(m, m.some("g", maxGroups), "default"), nil
	case 2:
		return "", nil, "", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": one(m, "gold", "tin")}}
	case 3:
		return "", m.selector(), m.some("g", maxGroups), nil
	case 4, 5:
		return "", &metav1.LabelSelector{}, "", nil
	}
	return "", m.selector(), "", nil
}

// selector is a random selector of clusters, which sometimes cannot be read.
func (m *model) selector() *metav1.LabelSelector {
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	switch m.rng.IntN(10) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return expression("env", metav1.LabelSelectorOpExists)
	case 2:
		return expression("env", metav1.LabelSelectorOpNotIn, "dev")
	case 3:
		return expression("zone", metav1.LabelSelectorOpIn, "eu", "us")
	case 4:
		if m.percent(40) {
			return &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": "x"}}
		}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"env": one(m, "dev", "prod")}}
}

// clusterLabels are random labels of a cluster; none at all is one case.
func (m *model) clusterLabels() map[string]string {
	out := map[string]string{}
	if m.percent(80) {
		out["env"] = one(m, "dev", "prod")
	}
	if m.percent(50) {
		out["zone"] = one(m, "eu", "us", "asia")
	}
	if m.percent(15) {
		out[fleet.LabelDisplayName] = "shown"
	}
	return out
}

func (m *model) templateValues() *fleet.GenericMap {
	if m.percent(40) {
		return nil
	}
	return &fleet.GenericMap{Data: map[string]any{"size": one(m, "small", "large")}}
}

// helm is random values: fixed ones, those of a cluster, and such that cannot
// be rendered everywhere, or anywhere.
func (m *model) helm(none int) *fleet.HelmOptions {
	if m.percent(none) {
		return nil
	}
	m.count++
	v := map[string]any{}
	switch m.rng.IntN(8) {
	case 0:
		return &fleet.HelmOptions{ReleaseName: one(m, "left", "right")}
	case 1:
		v["env"] = "${ .ClusterLabels.env }" // not every cluster has one
	case 2:
		v["env"] = "global.fleet.clusterLabels.env"
	case 3:
		v["size"] = "${ .ClusterValues.size }"
	case 4:
		v["note"] = `${ get .ClusterAnnotations "note" }`
	case 5:
		if m.percent(40) {
			v["x"] = "${ .X"
		}
	}
	v["name"] = one(m, "${ .ClusterName }", "fixed")
	v["version"] = fmt.Sprintf("v%d", m.count)
	out := &fleet.HelmOptions{Values: &fleet.GenericMap{Data: v}}
	if m.percent(10) {
		out.TemplateValues = map[string]string{"t": "${ .ClusterNamespace }"}
	}
	if m.percent(5) {
		out.DisablePreProcess = true
	}
	return out
}

// rollout is a random strategy, or none.
func (m *model) rollout() *fleet.RolloutStrategy {
	if m.percent(40) {
		return nil
	}
	limit := func() *intstr.IntOrString {
		v := one(m, intstr.FromInt32(1), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(0), intstr.FromString("34%"), intstr.FromString("50%"))
		if m.percent(3) {
			v = intstr.FromString("many")
		}
		return &v
	}
	s := &fleet.RolloutStrategy{}
	if m.percent(60) {
		s.MaxUnavailable = limit()
	}
	if m.percent(30) {
		n := 1 + m.rng.IntN(2)
		s.MaxNew = &n
	}
	if m.percent(20) {
		s.MaxUnavailablePartitions = limit()
	}
	switch m.rng.IntN(4) {
	case 0:
		threshold, size := 1+m.rng.IntN(4), one(m, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"))
		s.AutoPartitionThreshold, s.AutoPartitionSize = &threshold, &size
	case 1:
		for i := range 1 + m.rng.IntN(2) {
			p := fleet.Partition{Name: fmt.Sprintf("p%d", i)}
			p.ClusterName, p.ClusterSelector, p.ClusterGroup, p.ClusterGroupSelector = m.criteria()
			if m.percent(50) {
				p.MaxUnavailable = limit()
			}
			s.Partitions = append(s.Partitions, p)
		}
		if m.percent(60) {
			s.Partitions = append(s.Partitions, fleet.Partition{Name: "rest", ClusterSelector: &metav1.LabelSelector{}})
		}
	}
	return s
}
