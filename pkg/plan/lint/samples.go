package lint

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// maxSamples bounds how many clusters are made up.
const maxSamples = 100

// Workspace is where sample clusters are.
const Workspace = "fleet-default"

// made is a value that stands for one that only the real cluster has.
const made = "sample"

// A Sample is a cluster that bundles are tried with.
type Sample struct {
	// Title names it for people: what it was made for, or its name.
	Title  string
	Facts  values.ClusterFacts
	Groups []target.Group
	// Guessed reports that it has labels, annotations or values only because a
	// template asks for them: what comes of those says little.
	Guessed bool
}

// Samples makes up one cluster for each distinct selector in the bundles of a
// set, and one that none of them is about. Each has the labels, annotations and
// values that templates of values ask for.
func Samples(set bundle.Set) []Sample {
	m := sampleMaker{facts: askedBy(set)}
	m.addSample("any other cluster", target.Criteria{})
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		for i := range r.Bundle.Spec.Targets {
			m.criteria(criteriaOf(&r.Bundle.Spec.Targets[i]))
		}
		if s := r.Bundle.Spec.RolloutStrategy; s != nil {
			for _, p := range s.Partitions {
				m.criteria(target.Criteria{
					ClusterName: p.ClusterName, ClusterSelector: p.ClusterSelector, ClusterGroup: p.ClusterGroup, ClusterGroupSelector: p.ClusterGroupSelector,
				})
			}
		}
	}
	return m.list
}

type sampleMaker struct {
	facts usedFacts
	list  []Sample
	seen  map[string]bool
}

func (m *sampleMaker) criteria(c target.Criteria) {
	var parts []string
	if c.ClusterName != "" {
		parts = append(parts, c.ClusterName)
	}
	if c.ClusterGroup != "" {
		parts = append(parts, "group "+c.ClusterGroup)
	}
	if s := c.ClusterGroupSelector; s != nil && len(requirements(s)) > 0 {
		parts = append(parts, "groups "+metav1.FormatLabelSelector(s))
	}
	if s := c.ClusterSelector; s != nil && len(requirements(s)) > 0 {
		parts = append(parts, metav1.FormatLabelSelector(s))
	}
	if len(parts) > 0 {
		m.addSample(strings.Join(parts, " and "), c)
	}
}

// addSample makes one sample that meets the criteria, unless there is one already or
// no cluster could.
func (m *sampleMaker) addSample(title string, c target.Criteria) {
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	labels, without, ok := labelsMatching(c.ClusterSelector)
	if m.seen[title] || len(m.list) >= maxSamples || !ok {
		return
	}
	m.seen[title] = true
	s := Sample{Title: title, Facts: values.ClusterFacts{
		Name: cmp.Or(c.ClusterName, plainName(title)), Namespace: Workspace, Labels: labels, Annotations: map[string]string{},
		TemplateValues: map[string]any{},
	}}
	if !without[fleet.LabelManagementCluster] && labels[fleet.LabelManagementCluster] == "" {
		labels[fleet.LabelManagementCluster] = s.Facts.Name
	}
	if c.ClusterGroup != "" || c.ClusterGroupSelector != nil {
		groupLabels, _, _ := labelsMatching(c.ClusterGroupSelector)
		s.Groups = []target.Group{{Name: cmp.Or(c.ClusterGroup, made), Labels: groupLabels}}
	}
	m.facts.fillSample(&s, without)
	m.list = append(m.list, s)
}

// labelsMatching is labels that a selector matches, and those that must not be there.
// ok is false where there are none.
func labelsMatching(s *metav1.LabelSelector) (labels map[string]string, without map[string]bool, ok bool) {
	labels, without = map[string]string{}, map[string]bool{}
	all := requirements(s)
	for _, r := range all {
		if r.Operator == metav1.LabelSelectorOpIn && len(r.Values) > 0 {
			labels[r.Key] = r.Values[0]
		}
	}
	for _, r := range all {
		switch _, has := labels[r.Key]; r.Operator {
		case metav1.LabelSelectorOpExists:
			if !has {
				labels[r.Key] = made
			}
		case metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpDoesNotExist:
			without[r.Key] = !has
		}
	}
	if s == nil {
		return labels, without, true
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	return labels, without, err == nil && compiled.Matches(k8slabels.Set(labels))
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// plainName is a title as a name that a Cluster could have.
func plainName(title string) string {
	name := strings.Trim(notPlain.ReplaceAllString(strings.ToLower(title), "-"), "-")
	return strings.Trim(name[:min(len(name), 40)], "-")
}

// usedFacts lists the facts of a cluster that templates of values use.
type usedFacts struct {
	labels, annotations []string
	values              [][]string // paths
}

var (
	asksField = regexp.MustCompile(`\.Cluster(Labels|Annotations|Values)((?:\.[A-Za-z_]\w*)+)`)
	asksKey   = regexp.MustCompile(`(?:get|index|pluck|dig)\s+(?:\$)?\.Cluster(Labels|Annotations|Values)\s+"([^"]+)"`)
)

func askedBy(set bundle.Set) usedFacts {
	var a usedFacts
	for _, r := range set.Results {
		if r.Bundle != nil {
			templatesOf(r.Bundle, a.readTemplates)
		}
	}
	return a
}

func (u *usedFacts) readTemplates(text string) {
	for _, m := range asksField.FindAllStringSubmatch(text, -1) {
		u.addFact(m[1], strings.Split(m[2][1:], "."))
	}
	for _, m := range asksKey.FindAllStringSubmatch(text, -1) {
		u.addFact(m[1], []string{m[2]})
	}
}

func (u *usedFacts) addFact(of string, path []string) {
	switch of {
	case "Labels":
		u.labels = append(u.labels, path[0])
	case "Annotations":
		u.annotations = append(u.annotations, path[0])
	default:
		u.values = append(u.values, path)
	}
}

// fillSample gives a sample what is asked for and it has not.
func (u *usedFacts) fillSample(s *Sample, without map[string]bool) {
	for _, key := range u.labels {
		if _, has := s.Facts.Labels[key]; !has && !without[key] {
			s.Facts.Labels[key], s.Guessed = made, true
		}
	}
	for _, key := range u.annotations {
		s.Facts.Annotations[key], s.Guessed = made, true
	}
	for _, path := range u.values {
		at := s.Facts.TemplateValues
		for i, key := range path {
			below, isMap := at[key].(map[string]any)
			switch {
			case isMap:
				at = below
			case i == len(path)-1:
				at[key] = made
			default:
				below = map[string]any{}
				at[key], at = below, below
			}
		}
		s.Guessed = true
	}
}

// AsksClusters reports whether values of a bundle depend on what a cluster is.
func AsksClusters(b *fleet.Bundle) bool {
	var a usedFacts
	templatesOf(b, a.readTemplates)
	return len(a.labels)+len(a.annotations)+len(a.values) > 0
}

// templatesOf visits the texts of a bundle's values.
func templatesOf(b *fleet.Bundle, visit func(string)) {
	of := func(h *fleet.HelmOptions) {
		if h == nil || h.DisablePreProcess {
			return
		}
		if h.Values != nil {
			textsOf(h.Values.Data, visit)
		}
		for _, key := range slices.Sorted(maps.Keys(h.TemplateValues)) {
			visit(h.TemplateValues[key])
		}
	}
	of(b.Spec.Helm)
	for i := range b.Spec.Targets {
		of(b.Spec.Targets[i].Helm)
	}
}

func textsOf(v any, visit func(string)) {
	switch t := v.(type) {
	case string:
		visit(t)
	case []any:
		for _, e := range t {
			textsOf(e, visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(t)) {
			visit(key)
			textsOf(t[key], visit)
		}
	}
}

// DescribeFailing says for which of the clusters that were tried something fails, and
// what sets them apart: a label that all others have and none of these.
func DescribeFailing(failing, tried []Sample) string {
	if len(failing) == len(tried) {
		return "for every sample cluster"
	}
	var names []string
	for _, s := range failing {
		names = append(names, s.Title)
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	text := fmt.Sprintf("%d of %d sample clusters: %s", len(failing), len(tried), strings.Join(names, ", "))
	if key := missingLabel(failing, tried); key != "" {
		return fmt.Sprintf("for clusters without label %q; %s", key, text)
	}
	return text
}

// missingLabel is the one label that all clusters have but those that fail.
func missingLabel(failing, tried []Sample) string {
	fails, ruledOut := map[string]bool{}, map[string]bool{}
	for _, s := range failing {
		fails[s.Title] = true
		for key := range s.Facts.Labels {
			ruledOut[key] = true
		}
	}
	var common map[string]string
	for _, s := range tried {
		if fails[s.Title] {
			continue
		}
		if common == nil {
			common = maps.Clone(s.Facts.Labels)
		}
		maps.DeleteFunc(common, func(key, _ string) bool { _, has := s.Facts.Labels[key]; return !has || ruledOut[key] })
	}
	if len(common) != 1 {
		return "" // it is not known which of several it is
	}
	return slices.Collect(maps.Keys(common))[0]
}
