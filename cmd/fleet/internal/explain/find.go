package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// findSubject is the Bundle of a name, and the cluster of another in its workspace.
// Names that are not there are errors with the nearest that is.
func findSubject(ctx context.Context, r *client.ExplainReader, bundle, cluster string) (*fleet.Bundle, explain.Place, error) {
	items, err := r.ListNamed(ctx, cli.MustKind("bundles"), bundle)
	if err != nil {
		return nil, explain.Place{}, err
	}
	if len(items) == 0 {
		if err := r.S.SwappedArgumentsError(ctx, "explain", bundle, cluster); err != nil {
			return nil, explain.Place{}, err
		}
		return nil, explain.Place{}, unknownBundle(ctx, r, bundle)
	}
	var bundles []*fleet.Bundle
	for _, u := range items {
		b, err := client.Convert[fleet.Bundle](u)
		if err != nil {
			return nil, explain.Place{}, err
		}
		bundles = append(bundles, b)
	}
	if cluster == "" {
		if len(bundles) > 1 {
			return nil, explain.Place{}, ambiguousError("bundle", bundle, spacesOf(bundles))
		}
		return bundles[0], explain.Place{}, nil
	}
	return findCluster(ctx, r, bundles, cluster)
}

// findHelmOp is the HelmOp of a name.
func findHelmOp(ctx context.Context, r *client.ExplainReader, name string) (*fleet.HelmOp, error) {
	k := cli.MustKind("helmops")
	items, err := r.ListNamed(ctx, k, name)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return nil, notFoundError(ctx, r, k, name)
	case len(items) > 1:
		var spaces []string
		for _, u := range items {
			spaces = append(spaces, u.GetNamespace())
		}
		slices.Sort(spaces)
		return nil, ambiguousError(k.Singular, name, spaces)
	}
	return client.Convert[fleet.HelmOp](items[0])
}

// findCluster looks for a cluster in the workspaces of some Bundles.
func findCluster(ctx context.Context, r *client.ExplainReader, bundles []*fleet.Bundle, name string) (*fleet.Bundle, explain.Place, error) {
	var found []*fleet.Bundle
	var places []explain.Place
	for _, b := range bundles {
		c, err := cluster(ctx, r, b.Namespace, name)
		if err != nil {
			return nil, explain.Place{}, err
		}
		switch {
		case c != nil:
			found, places = append(found, b), append(places, explain.Place{Key: view.Key{Namespace: c.Namespace, Name: c.Name}, Cluster: c})
		case slices.Contains(r.Hidden, explain.Hidden{Resource: explain.Clusters, Namespace: b.Namespace}):
			found, places = append(found, b), append(places, explain.Place{Key: view.Key{Namespace: b.Namespace, Name: name}})
		}
	}
	if len(found) == 0 && len(bundles) == 1 && r.S.Scope == "" {
		if at, err := onlyClusterNamed(ctx, r, name); at.Cluster != nil || err != nil {
			return bundles[0], at, err
		}
	}
	switch len(found) {
	case 0:
		return nil, explain.Place{}, unknownCluster(ctx, r, bundles, name)
	case 1:
		return found[0], places[0], nil
	}
	return nil, explain.Place{}, ambiguousError("bundle", bundles[0].Name, spacesOf(found))
}

// onlyClusterNamed is the only cluster of a name in any workspace; its Cluster is nil
// where there is none, or where there are several.
func onlyClusterNamed(ctx context.Context, r *client.ExplainReader, name string) (explain.Place, error) {
	items, err := r.ListNamed(ctx, cli.MustKind("clusters"), name)
	if err != nil || len(items) != 1 {
		return explain.Place{}, err
	}
	c, err := client.Convert[fleet.Cluster](items[0])
	if err != nil {
		return explain.Place{}, err
	}
	return explain.Place{Key: view.Key{Namespace: c.Namespace, Name: c.Name}, Cluster: c}, nil
}

// cluster is the Cluster of a name, or of a display name that Rancher gave it.
func cluster(ctx context.Context, r *client.ExplainReader, namespace, name string) (*fleet.Cluster, error) {
	k := cli.MustKind("clusters")
	c, err := client.Read[fleet.Cluster](ctx, r, k.Resource(), namespace, name)
	if c != nil || err != nil || len(r.Hidden) > 0 {
		return c, err
	}
	if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return nil, nil
	}
	called, err := client.List[fleet.Cluster](ctx, r, client.Query{Resource: k.Resource(), Namespace: namespace, Labels: fleet.LabelDisplayName + "=" + name})
	if err != nil || len(called) != 1 {
		return nil, err
	}
	return called[0], nil
}

func spacesOf(bundles []*fleet.Bundle) []string {
	var out []string
	for _, b := range bundles {
		out = append(out, b.Namespace)
	}
	slices.Sort(out)
	return out
}

func ambiguousError(word, name string, spaces []string) error {
	return fmt.Errorf("%s %q is in %s; say which with -n", word, name, strings.Join(spaces, " and in "))
}

// notFoundError is the error for a name that is not there, with the nearest that is.
func notFoundError(ctx context.Context, r *client.ExplainReader, k cli.Kind, name string) error {
	qs, err := r.S.QueriesFor(ctx, k, "")
	if err != nil {
		return err
	}
	var keys []view.Key
	for _, q := range qs {
		items, err := r.S.ListAll(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			keys = append(keys, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	}
	return r.S.Unknown(ctx, k, name, keys)
}

// unknownBundle is unknown for a bundle. A bundle whose GitRepo, or whose files, cannot be
// read is not written: then the error says why. Files of other bundles are no reason.
func unknownBundle(ctx context.Context, r *client.ExplainReader, name string) error {
	missing := notFoundError(ctx, r, cli.MustKind("bundles"), name)
	repos, err := client.List[fleet.GitRepo](ctx, r, client.Query{Resource: cli.MustKind("repos").Resource(), Namespace: r.S.Scope})
	if err != nil {
		return missing
	}
	reported := r.S.Findings(ctx, r.S.Scope)
	for _, repo := range repos {
		if cause := explain.UnwrittenReason(repo, name, reported.ForRepo(repo)); cause != "" {
			return fmt.Errorf("%w (%s)", missing, cause)
		}
		if !explain.IsBundleOf(repo, name) {
			continue
		}
		if m, err := r.S.ManagerOf(ctx, view.ShardOf(repo)); err == nil && m.Unmanaged() != "" {
			return fmt.Errorf("%w (repo %s in %s has not written it: %s; %s)", missing, repo.Name, repo.Namespace, m.Unmanaged(), m.ShardHint())
		}
	}
	return missing
}

// unknownCluster is unknown for a cluster: only those in the workspaces of the
// Bundles count.
func unknownCluster(ctx context.Context, r *client.ExplainReader, bundles []*fleet.Bundle, name string) error {
	if len(r.Narrow) > 0 {
		r.S.NoteNarrowed(r.Narrow)
	}
	k := cli.MustKind("clusters")
	var keys []view.Key
	for _, b := range bundles {
		items, err := r.S.ListAll(ctx, client.Query{Resource: k.Resource(), Namespace: b.Namespace})
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		for _, u := range items {
			keys = append(keys, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	}
	spaces := strings.Join(spacesOf(bundles), " or ")
	if len(keys) == 0 {
		if with := r.S.WithClusters(ctx); len(with) > 0 {
			return fmt.Errorf("no cluster %q: %s", name, view.NoClusters(spaces, with))
		}
	}
	return client.Unknown(k, name, spaces, keys)
}
