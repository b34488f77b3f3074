package explain

import (
	"fmt"
	"maps"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// AsksLabels reports whether the targets of a Bundle, or cluster groups that they name,
// ask for labels that a cluster does not have. Its Cluster must be there.
func AsksLabels(s Subject, at Place) bool {
	p := bundleOnCluster{compiledSubject: &compiledSubject{Subject: s}, deploymentPlace: at}
	return len(targetLink{&p}.missingLabels()) > 0
}

// missingLabels are the labels that targets, restrictions and cluster groups ask for and that the
// cluster does not have.
func (tl targetLink) missingLabels() [][2]string {
	var out [][2]string
	for _, selectors := range tl.selectors() {
		for _, s := range selectors {
			missing := map[string]string{}
			missingLabels(s, tl.deploymentPlace.Cluster.Labels, missing)
			for k, v := range missing {
				out = append(out, [2]string{k, v})
			}
		}
	}
	return out
}

// misspelt are the labels that targets, restrictions and cluster groups ask for, that no
// cluster of the namespace has and that are near one that a cluster has, with what is
// said of each. It is empty where the clusters' labels are not known.
func (tl targetLink) misspelt() map[string]string {
	clusters := tl.Labels[tl.deploymentPlace.Key.Namespace]
	out := map[string]string{}
	if len(clusters) == 0 {
		return out
	}
	counts := map[string]map[string]int{} // clusters by label and value
	for _, set := range clusters {
		for k, v := range set {
			if counts[k] == nil {
				counts[k] = map[string]int{}
			}
			counts[k][v]++
		}
	}
	for _, asked := range tl.missingLabels() {
		k, v := asked[0], asked[1]
		if meant := meantLabel(k, v, counts); meant != "" {
			out[k+"="+v] = fmt.Sprintf("no cluster of %s has %s=%s; did you mean %s?", tl.deploymentPlace.Key.Namespace, k, v, meant)
		}
	}
	return out
}

// meantLabel is the label that was most likely meant by one that no cluster has, with
// its clusters: "env=prod (3 clusters)". It is empty where a cluster has the label, or
// none has one that is near.
func meantLabel(key, value string, counts map[string]map[string]int) string {
	if counts[key][value] > 0 {
		return ""
	}
	if near := spelling.Nearest(value, slices.Collect(maps.Keys(counts[key]))); near != "" {
		return fmt.Sprintf("%s=%s (%s)", key, near, clusters(counts[key][near]))
	}
	if len(counts[key]) > 0 {
		return ""
	}
	near := spelling.Nearest(key, slices.Collect(maps.Keys(counts)))
	if n := counts[near][value]; near != "" && n > 0 {
		return fmt.Sprintf("%s=%s (%s)", near, value, clusters(n))
	}
	return ""
}

// askedBy is where a label stands that targets ask for.
func (tl targetLink) askedBy(label string) string {
	for _, g := range tl.Groups {
		asked := map[string]string{}
		if g.Namespace == tl.deploymentPlace.Key.Namespace && g.Spec.Selector != nil {
			missingLabels(g.Spec.Selector, nil, asked)
		}
		for k, v := range asked {
			if k+"="+v == label {
				return "the selector of cluster group " + g.Name
			}
		}
	}
	return tl.targetsPlace()
}

// faultyGroup is the first cluster group that a target names and whose selector cannot be
// used, with the error that says so. The name is empty where there is none.
func (tl targetLink) faultyGroup() (name, text string) {
	namespace := tl.deploymentPlace.Key.Namespace
	if led, _ := tl.reach.Includes(namespace); !led {
		return "", ""
	}
	for _, t := range target.PlainTargets(&tl.Bundle.Spec) {
		for _, g := range tl.Groups {
			if g.Namespace != namespace || g.Name != t.ClusterGroup {
				continue
			}
			if _, errs := target.CompileGroups([]*fleet.ClusterGroup{g}); len(errs) > 0 {
				return g.Name, errs[0].Error()
			}
		}
	}
	return "", ""
}

// targetsPlace is where the targets of the Bundle stand.
func (tl targetLink) targetsPlace() string {
	repo := tl.Bundle.Labels[fleet.LabelRepoName]
	switch {
	case tl.overridesTargets():
		return "overrideTargets in " + tl.file()
	case repo != "":
		return fmt.Sprintf("spec.targets of the repo: kubectl -n %s edit gitrepo %s", tl.Bundle.Namespace, repo)
	}
	return "spec.targets of the bundle"
}

// clusters is a number of clusters in words.
func clusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}
