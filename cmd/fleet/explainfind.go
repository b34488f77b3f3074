package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// named are the objects of a kind with a name, within -n. A user who may not list all
// namespaces gets those of the workspaces that can be found.
func (r *reading) named(ctx context.Context, k kind, name string) ([]*unstructured.Unstructured, error) {
	s := r.s
	spaces := []string{s.scope}
	var cause error
	if s.scope == "" {
		items, err := s.all(ctx, query{resource: k.resource(), fields: fields.OneTermEqualSelector("metadata.name", name).String()})
		if !apierrors.IsForbidden(err) {
			return items, err
		}
		spaces, cause = s.workspaces(ctx), err
	}
	var out []*unstructured.Unstructured
	var allowed []string
	for _, ns := range spaces {
		u, err := s.api.Get(ctx, k.resource(), ns, name)
		switch {
		case err == nil:
			out, allowed = append(out, u), append(allowed, ns)
		case apierrors.IsNotFound(err):
			allowed = append(allowed, ns)
		case !apierrors.IsForbidden(err):
			return nil, reached(s.server, err)
		default:
			cause = err
		}
	}
	if len(allowed) == 0 {
		return nil, s.nowhere(k, spaces, cause)
	}
	if s.scope == "" {
		r.narrow = allowed
	}
	return out, nil
}

// find is the Bundle of a name, and the cluster of another in its workspace.
// Names that are not there are errors with the nearest that is.
func (r *reading) find(ctx context.Context, bundle, cluster string) (*fleet.Bundle, explain.Place, error) {
	items, err := r.named(ctx, mustKind("bundles"), bundle)
	if err != nil {
		return nil, explain.Place{}, err
	}
	if len(items) == 0 {
		if err := r.s.swapped(ctx, "explain", bundle, cluster); err != nil {
			return nil, explain.Place{}, err
		}
		return nil, explain.Place{}, r.unknownBundle(ctx, bundle)
	}
	var bundles []*fleet.Bundle
	for _, u := range items {
		b, err := as[fleet.Bundle](u)
		if err != nil {
			return nil, explain.Place{}, err
		}
		bundles = append(bundles, b)
	}
	if cluster == "" {
		if len(bundles) > 1 {
			return nil, explain.Place{}, several("bundle", bundle, spacesOf(bundles))
		}
		return bundles[0], explain.Place{}, nil
	}
	return r.findCluster(ctx, bundles, cluster)
}

// findCluster looks for a cluster in the workspaces of some Bundles.
func (r *reading) findCluster(ctx context.Context, bundles []*fleet.Bundle, name string) (*fleet.Bundle, explain.Place, error) {
	var found []*fleet.Bundle
	var places []explain.Place
	for _, b := range bundles {
		c, err := r.cluster(ctx, b.Namespace, name)
		if err != nil {
			return nil, explain.Place{}, err
		}
		switch {
		case c != nil:
			found, places = append(found, b), append(places, explain.Place{Key: view.Key{Namespace: c.Namespace, Name: c.Name}, Cluster: c})
		case slices.Contains(r.hidden, explain.Hidden{Resource: explain.Clusters, Namespace: b.Namespace}):
			found, places = append(found, b), append(places, explain.Place{Key: view.Key{Namespace: b.Namespace, Name: name}})
		}
	}
	if len(found) == 0 && len(bundles) == 1 && r.s.scope == "" {
		if at, err := r.elsewhere(ctx, name); at.Cluster != nil || err != nil {
			return bundles[0], at, err
		}
	}
	switch len(found) {
	case 0:
		return nil, explain.Place{}, r.unknownCluster(ctx, bundles, name)
	case 1:
		return found[0], places[0], nil
	}
	return nil, explain.Place{}, several("bundle", bundles[0].Name, spacesOf(found))
}

// elsewhere is the only cluster of a name in any workspace; its Cluster is nil
// where there is none, or where there are several.
func (r *reading) elsewhere(ctx context.Context, name string) (explain.Place, error) {
	items, err := r.named(ctx, mustKind("clusters"), name)
	if err != nil || len(items) != 1 {
		return explain.Place{}, err
	}
	c, err := as[fleet.Cluster](items[0])
	if err != nil {
		return explain.Place{}, err
	}
	return explain.Place{Key: view.Key{Namespace: c.Namespace, Name: c.Name}, Cluster: c}, nil
}

// cluster is the Cluster of a name, or of a display name that Rancher gave it.
func (r *reading) cluster(ctx context.Context, namespace, name string) (*fleet.Cluster, error) {
	k := mustKind("clusters")
	c, err := read[fleet.Cluster](ctx, r, k.resource(), namespace, name)
	if c != nil || err != nil || len(r.hidden) > 0 {
		return c, err
	}
	if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return nil, nil
	}
	called, err := list[fleet.Cluster](ctx, r, query{resource: k.resource(), namespace: namespace, labels: fleet.LabelDisplayName + "=" + name})
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

func several(word, name string, spaces []string) error {
	return fmt.Errorf("%s %q is in %s; say which with -n", word, name, strings.Join(spaces, " and in "))
}

// unknown is the error for a name that is not there, with the nearest that is.
func (r *reading) unknown(ctx context.Context, k kind, name string) error {
	qs, err := r.s.wide(ctx, k, "")
	if err != nil {
		return err
	}
	var keys []view.Key
	for _, q := range qs {
		items, err := r.s.all(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			keys = append(keys, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	}
	return r.s.unknown(ctx, k, name, keys)
}

// unknownBundle is unknown for a bundle. A bundle whose GitRepo, or whose files, cannot be
// read is not written: then the error says why. Files of other bundles are no reason.
func (r *reading) unknownBundle(ctx context.Context, name string) error {
	missing := r.unknown(ctx, mustKind("bundles"), name)
	repos, err := list[fleet.GitRepo](ctx, r, query{resource: mustKind("repos").resource(), namespace: r.s.scope})
	if err != nil {
		return missing
	}
	reported := r.s.findings(ctx, r.s.scope)
	for _, repo := range repos {
		if cause := explain.Unwritten(repo, name, reported.of(repo)); cause != "" {
			return fmt.Errorf("%w (%s)", missing, cause)
		}
		if !explain.Mine(repo, name) {
			continue
		}
		if m, err := r.s.managerOf(ctx, view.ShardOf(repo)); err == nil && m.Unmanaged() != "" {
			return fmt.Errorf("%w (repo %s in %s has not written it: %s; %s)", missing, repo.Name, repo.Namespace, m.Unmanaged(), m.ShardHint())
		}
	}
	return missing
}

// unknownCluster is unknown for a cluster: only those in the workspaces of the
// Bundles count.
func (r *reading) unknownCluster(ctx context.Context, bundles []*fleet.Bundle, name string) error {
	if len(r.narrow) > 0 {
		r.s.noteNarrowed(r.narrow)
	}
	k := mustKind("clusters")
	var keys []view.Key
	for _, b := range bundles {
		items, err := r.s.all(ctx, query{resource: k.resource(), namespace: b.Namespace})
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		for _, u := range items {
			keys = append(keys, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	}
	spaces := strings.Join(spacesOf(bundles), " or ")
	if len(keys) == 0 {
		if with := r.s.withClusters(ctx); len(with) > 0 {
			return fmt.Errorf("no cluster %q: %s", name, view.NoClusters(spaces, with))
		}
	}
	return k.unknown(name, spaces, keys)
}
