package gitrepo

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

const (
	// maxNames is how many clusters, and how many groups, of one repository are
	// looked for.
	maxNames = 50
	// namesAgain is after how long names of clusters and groups that did not exist are
	// looked for again, and bundlesAgain the same for bundles, which are in a cache.
	namesAgain   = 5 * time.Minute
	bundlesAgain = 15 * time.Second
)

// names are names of clusters, of cluster groups and of bundles.
type names struct{ clusters, groups, bundles []string }

func (n names) count() int { return len(n.clusters) + len(n.groups) + len(n.bundles) }

// retryAfter returns after how long missing names are looked up again.
func (n names) retryAfter() time.Duration {
	if len(n.bundles) > 0 {
		return bundlesAgain
	}
	return namesAgain
}

// without returns the names that are not in others.
func (n names) without(others names) names {
	drop := func(list, others []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(others, name) })
	}
	return names{drop(n.clusters, others.clusters), drop(n.groups, others.groups), drop(n.bundles, others.bundles)}
}

// union returns the names of n and others.
func (n names) union(others names) names {
	return names{
		slices.Concat(n.clusters, others.clusters), slices.Concat(n.groups, others.groups), slices.Concat(n.bundles, others.bundles),
	}
}

// sortedDistinct returns the names sorted, without duplicates, and at most maxNames of
// a kind.
func (n names) sortedDistinct() names {
	for _, list := range []*[]string{&n.clusters, &n.groups, &n.bundles} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		*list = (*list)[:min(len(*list), maxNames)]
	}
	return n
}

// addTarget adds the cluster and the group of a target.
func (n *names) addTarget(cluster, group string) {
	if cluster != "" {
		n.clusters = append(n.clusters, cluster)
	}
	if group != "" {
		n.groups = append(n.groups, group)
	}
}

// targetsOf returns the clusters and groups that the targets of a GitRepo name.
func targetsOf(repo *fleet.GitRepo) (n names) {
	for _, t := range repo.Spec.Targets {
		n.addTarget(t.ClusterName, t.ClusterGroup)
	}
	return n
}

// namesInBundles returns the names in the files of a repository, without those in the
// GitRepo itself, which have no line in a file, and without the bundles of the
// repository.
func namesInBundles(set bundle.Set, repo *fleet.GitRepo) names {
	own := targetsOf(repo)
	own.groups = append(own.groups, fleet.ClusterGroupDefault)
	own.bundles = bundlesOf(set)
	var all names
	for _, r := range set.Results {
		all = all.union(namesInBundle(r))
	}
	return all.without(own).sortedDistinct()
}

// bundlesOf returns the names of the bundles of a repository.
func bundlesOf(set bundle.Set) []string {
	var list []string
	for _, r := range set.Results {
		if r.Bundle != nil {
			list = append(list, r.Bundle.Name)
		}
	}
	return list
}

// namesInBundle returns the names in the files of one bundle.
func namesInBundle(r bundle.Result) (n names) {
	if r.Bundle == nil {
		return n
	}
	for i := range r.Bundle.Spec.Targets {
		n.addTarget(r.Bundle.Spec.Targets[i].ClusterName, r.Bundle.Spec.Targets[i].ClusterGroup)
	}
	if s := r.Bundle.Spec.RolloutStrategy; s != nil {
		for _, p := range s.Partitions {
			n.addTarget(p.ClusterName, p.ClusterGroup)
		}
	}
	for _, ref := range r.Bundle.Spec.DependsOn {
		if ref.Name != "" {
			n.bundles = append(n.bundles, ref.Name)
		}
	}
	return n
}

// addNameWarnings adds to the results of reading a commit warnings about names that do
// not exist, with their lines.
func addNameWarnings(tree fs.FS, set bundle.Set, mentioned, missing names, namespace string) {
	there, own := mentioned.without(missing), bundlesOf(set)
	for i := range set.Results {
		r := &set.Results[i]
		in := namesInBundle(*r)
		if in.without(missing).count() == in.count() {
			continue
		}
		file := lint.Options(tree, r.Dir)
		var named names // what was not looked for is taken as existing
		named.clusters, named.groups = lint.NamedClusters(&file)
		named = named.without(missing)
		r.Findings = slices.Concat(r.Findings, lint.Unknown(&file, lint.Known{
			Where: namespace, Clusters: slices.Concat([]string{""}, there.clusters, named.clusters), Groups: slices.Concat([]string{""}, there.groups, named.groups),
		}), unknownDependencies(&file, missing.bundles, own, namespace))
	}
}

// unknownTargets returns warnings about clusters and groups that the targets of a
// GitRepo name and that do not exist.
func unknownTargets(repo *fleet.GitRepo, missing names) []finding.Finding {
	var list []finding.Finding
	add := func(i int, kind, name string, missing []string) {
		if name != "" && slices.Contains(missing, name) {
			list = append(list, finding.Finding{
				Severity: finding.Warning, Rule: finding.RuleUnknownCluster,
				Message: fmt.Sprintf("spec.targets[%d]: there is no %s %q in %s", i, kind, name, repo.Namespace),
			})
		}
	}
	for i, t := range repo.Spec.Targets {
		add(i, "cluster", t.ClusterName, missing.clusters)
		add(i, "cluster group", t.ClusterGroup, missing.groups)
	}
	return list
}

// unknownDependencies returns warnings about bundles in dependsOn that do not exist. An
// agent does not report a change of dependsOn alone: the deployed version stays.
func unknownDependencies(file *fleetyaml.File, missing, own []string, namespace string) []finding.Finding {
	var list []finding.Finding
	for i, ref := range file.Spec.DependsOn {
		if ref.Name == "" || !slices.Contains(missing, ref.Name) {
			continue
		}
		remedy := "" // in the message: conditions and events show no hints
		if near := cmp.Or(spelling.Nearest(ref.Name, own), uniqueSuffixMatch(own, "-"+ref.Name)); near != "" {
			remedy = fmt.Sprintf(" (did you mean %q?)", near)
		}
		f := finding.Finding{
			Path: file.Path, Severity: finding.Warning, Rule: finding.RuleDependency,
			Message: fmt.Sprintf("dependsOn[%d]: there is no bundle %q in %s%s; until there is, no change of this bundle is deployed", i, ref.Name, namespace, remedy),
		}
		f.Line, f.Column = file.Position("dependsOn", i, "name")
		list = append(list, f)
	}
	return list
}

// uniqueSuffixMatch returns the only name with a suffix; empty if there is none, or
// more than one.
func uniqueSuffixMatch(names []string, ending string) string {
	found := ""
	for _, name := range names {
		switch {
		case !strings.HasSuffix(name, ending):
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}

// A nameFinder looks for the clusters, cluster groups and bundles that repositories name.
type nameFinder struct {
	log      *logrus.Entry
	now      func() time.Time
	cache    *caches
	memories *memories
	clusters *kube.Store[*fleet.Cluster]
	groups   *kube.Store[*fleet.ClusterGroup]
	mappings *kube.Store[*fleet.BundleNamespaceMapping]
}

// missingBundles returns the names of bundles that do not exist in a workspace.
func (nf *nameFinder) missingBundles(namespace string, bundles []string) []string {
	var list []string
	for _, name := range bundles {
		if _, ok := nf.cache.bundles.Get(kube.Key{Namespace: namespace, Name: name}); !ok {
			list = append(list, name)
		}
	}
	return list
}

// missing returns the names that do not exist in a workspace. If mappings allow the
// bundles of the workspace on clusters of others, it does not look for clusters and
// groups. After an error, the missing clusters and groups are unknown.
func (nf *nameFinder) missing(ctx context.Context, namespace string, n names) (names, error) {
	none := names{bundles: nf.missingBundles(namespace, n.bundles)}
	if len(n.clusters)+len(n.groups) == 0 {
		return none, nil
	}
	mappings, err := nf.mappings.List(ctx, namespace, "")
	if err != nil || len(mappings) > 0 {
		return none, err
	}
	out := none
	for _, name := range n.clusters {
		there, err := nf.clusterExists(ctx, kube.Key{Namespace: namespace, Name: name})
		if err != nil {
			return none, err
		}
		if !there {
			out.clusters = append(out.clusters, name)
		}
	}
	for _, name := range n.groups {
		_, err := nf.groups.Get(ctx, kube.Key{Namespace: namespace, Name: name})
		switch {
		case kube.IsGone(err):
			out.groups = append(out.groups, name)
		case err != nil:
			return none, err
		}
	}
	return out, nil
}

// clusterExists reports whether a cluster has this name, or this name in Rancher.
func (nf *nameFinder) clusterExists(ctx context.Context, key kube.Key) (bool, error) {
	_, err := nf.clusters.Get(ctx, key)
	if !kube.IsGone(err) {
		return err == nil, err
	}
	if len(validation.IsValidLabelValue(key.Name)) > 0 {
		return false, nil
	}
	list, err := nf.clusters.List(ctx, key.Namespace, fleet.LabelDisplayName+"="+key.Name)
	return len(list) > 0, err
}

// warnMissing adds warnings about names that do not exist, and remembers the names. If
// the lookup fails, it adds none.
func (nf *nameFinder) warnMissing(ctx context.Context, repo *fleet.GitRepo, tree fs.FS, set *bundle.Set) {
	mentioned := namesInBundles(*set, repo)
	gone, err := nf.missing(ctx, repo.Namespace, mentioned.union(targetsOf(repo).sortedDistinct()))
	if err != nil {
		nf.log.WithError(err).WithField("workspace", repo.Namespace).WithField("gitrepo", repo.Name).Debug("names of clusters not looked for")
	}
	addNameWarnings(tree, *set, mentioned, gone, repo.Namespace)
	set.Findings = slices.Concat(set.Findings, unknownTargets(repo, gone))
	nf.memories.update(kube.KeyOf(repo), repo.UID, func(m *memory) { m.missing, m.looked = gone, nf.now() })
}

// hasAppeared reports whether a name that was missing exists now. It looks for clusters
// and groups once in namesAgain.
func (nf *nameFinder) hasAppeared(ctx context.Context, repo *fleet.GitRepo, m memory) bool {
	switch others := len(m.missing.clusters) + len(m.missing.groups); {
	case len(nf.missingBundles(repo.Namespace, m.missing.bundles)) < len(m.missing.bundles):
		return true
	case others == 0, nf.now().Sub(m.looked) < namesAgain:
		return false
	}
	gone, err := nf.missing(ctx, repo.Namespace, m.missing)
	if err != nil {
		return false
	}
	nf.memories.update(kube.KeyOf(repo), repo.UID, func(m *memory) { m.looked = nf.now() })
	return m.missing.without(gone).count() > 0
}
