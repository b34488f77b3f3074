package gitrepo

import (
	"context"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
)

const (
	// maxNames is how many clusters, and how many groups, of one repository are
	// looked for.
	maxNames = 50
	// namesAgain is after how long names that did not exist are looked for again.
	namesAgain = 5 * time.Minute
)

// names are those of clusters and of cluster groups.
type names struct{ clusters, groups []string }

func (n names) any() bool { return len(n.clusters)+len(n.groups) > 0 }

// without are the names that are not among others.
func (n names) without(others names) names {
	drop := func(list, others []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(others, name) })
	}
	return names{drop(n.clusters, others.clusters), drop(n.groups, others.groups)}
}

// mentionedBy are the names in the bundles of a repository, without those that the
// GitRepo itself names: these have no place in a file.
func mentionedBy(set bundle.Set, repo *fleet.GitRepo) names {
	own := names{groups: []string{fleet.ClusterGroupDefault}}
	for _, t := range repo.Spec.Targets {
		own.clusters, own.groups = append(own.clusters, t.ClusterName), append(own.groups, t.ClusterGroup)
	}
	var all names
	for _, r := range set.Results {
		all.clusters, all.groups = append(all.clusters, namesIn(r).clusters...), append(all.groups, namesIn(r).groups...)
	}
	all = all.without(own)
	for _, list := range []*[]string{&all.clusters, &all.groups} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		*list = (*list)[:min(len(*list), maxNames)]
	}
	return all
}

func namesIn(r bundle.Result) (n names) {
	add := func(cluster, group string) {
		if cluster != "" {
			n.clusters = append(n.clusters, cluster)
		}
		if group != "" {
			n.groups = append(n.groups, group)
		}
	}
	if r.Bundle == nil {
		return n
	}
	for i := range r.Bundle.Spec.Targets {
		add(r.Bundle.Spec.Targets[i].ClusterName, r.Bundle.Spec.Targets[i].ClusterGroup)
	}
	if s := r.Bundle.Spec.RolloutStrategy; s != nil {
		for _, p := range s.Partitions {
			add(p.ClusterName, p.ClusterGroup)
		}
	}
	return n
}

// strangers adds to the results of a reading warnings about names that do not
// exist, with their lines.
func strangers(tree fs.FS, set bundle.Set, mentioned, missing names, namespace string) {
	there := mentioned.without(missing)
	for i := range set.Results {
		r := &set.Results[i]
		in := namesIn(*r)
		if left := in.without(missing); len(left.clusters)+len(left.groups) == len(in.clusters)+len(in.groups) {
			continue
		}
		file := lint.Options(tree, r.Dir)
		var named names // what was not looked for counts as existing
		named.clusters, named.groups = lint.Named(&file)
		named = named.without(missing)
		r.Findings = slices.Concat(r.Findings, lint.Unknown(&file, lint.Known{
			Where: namespace, Clusters: slices.Concat([]string{""}, there.clusters, named.clusters), Groups: slices.Concat([]string{""}, there.groups, named.groups),
		}))
	}
}

// missing are the names that do not exist in a workspace. None are, where mappings
// lead its bundles to clusters of others. With an error it is not known.
func (w *Worker) missing(ctx context.Context, namespace string, n names) (names, error) {
	if !n.any() {
		return names{}, nil
	}
	mappings, err := w.mappings.List(ctx, namespace, "")
	if err != nil || len(mappings) > 0 {
		return names{}, err
	}
	var out names
	for _, name := range n.clusters {
		there, err := w.clusterExists(ctx, kube.Key{Namespace: namespace, Name: name})
		if err != nil {
			return names{}, err
		}
		if !there {
			out.clusters = append(out.clusters, name)
		}
	}
	for _, name := range n.groups {
		_, err := w.groups.Get(ctx, kube.Key{Namespace: namespace, Name: name})
		switch {
		case kube.IsGone(err):
			out.groups = append(out.groups, name)
		case err != nil:
			return names{}, err
		}
	}
	return out, nil
}

// clusterExists looks for a cluster by its name and by the one that Rancher shows.
func (w *Worker) clusterExists(ctx context.Context, key kube.Key) (bool, error) {
	_, err := w.clusters.Get(ctx, key)
	if !kube.IsGone(err) {
		return err == nil, err
	}
	if len(validation.IsValidLabelValue(key.Name)) > 0 {
		return false, nil
	}
	list, err := w.clusters.List(ctx, key.Namespace, fleet.LabelDisplayName+"="+key.Name)
	return len(list) > 0, err
}

// doubtNames adds warnings about names that do not exist, and remembers these.
// Where they cannot be looked for there is no warning.
func (w *Worker) doubtNames(ctx context.Context, repo *fleet.GitRepo, tree fs.FS, set bundle.Set) {
	mentioned := mentionedBy(set, repo)
	gone, err := w.missing(ctx, repo.Namespace, mentioned)
	if err != nil {
		w.log.WithError(err).WithField("workspace", repo.Namespace).WithField("gitrepo", repo.Name).Debug("names of clusters not looked for")
	}
	strangers(tree, set, mentioned, gone, repo.Namespace)
	w.remember(kube.KeyOf(repo), repo.UID, func(m *memory) { m.missing, m.looked = gone, w.now() })
}

// appeared reports whether a name exists now that did not when the repository was
// read. It asks every five minutes at most.
func (w *Worker) appeared(ctx context.Context, repo *fleet.GitRepo, m memory) bool {
	if !m.missing.any() || w.now().Sub(m.looked) < namesAgain {
		return false
	}
	gone, err := w.missing(ctx, repo.Namespace, m.missing)
	if err != nil {
		return false
	}
	w.remember(kube.KeyOf(repo), repo.UID, func(m *memory) { m.looked = w.now() })
	return m.missing.without(gone).any()
}
