package main

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// holders are objects that may hold back what rows show, as far as the user may read
// them.
type holders struct {
	repos    map[view.Key]*fleet.GitRepo
	bundles  map[view.Key]*fleet.Bundle
	clusters map[view.Key]*fleet.Cluster
}

// ofBundle are those of a Bundle.
func (h holders) ofBundle(b *fleet.Bundle) view.Holders {
	return view.Holders{Bundle: b, Repo: h.repos[view.Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelRepoName]}]}
}

// ofDeployment are those of a BundleDeployment.
func (h holders) ofDeployment(bd *fleet.BundleDeployment) view.Holders {
	out := view.Holders{}
	if b := h.bundles[view.BundleOf(bd)]; b != nil {
		out = h.ofBundle(b)
	}
	out.Cluster = h.clusters[view.ClusterOf(bd)]
	return out
}

// held are the keys of what may hold objects back.
type held struct{ repos, bundles, clusters []view.Key }

// bundle notes what may hold a Bundle back.
func (h *held) bundle(b *fleet.Bundle) {
	if name := b.Labels[fleet.LabelRepoName]; b.Spec.Paused && name != "" {
		h.repos = append(h.repos, view.Key{Namespace: b.Namespace, Name: name})
	}
}

// deployment notes what may hold a BundleDeployment back.
func (h *held) deployment(bd *fleet.BundleDeployment) {
	if view.HeldBack(bd) {
		h.bundles = append(h.bundles, view.BundleOf(bd))
	}
	if bd.Spec.Paused {
		h.clusters = append(h.clusters, view.ClusterOf(bd))
	}
}

// held are the keys for what a table is about to show; none for other kinds than
// bundles and deployments, and where no object is held back.
func (o getOptions) held(items []*unstructured.Unstructured) (held, error) {
	var keys held
	if o.output.Machine() {
		return keys, nil
	}
	switch o.kind.plural {
	case "bundles":
		bundles, err := allAs[fleet.Bundle](items)
		for _, b := range bundles {
			keys.bundle(b)
		}
		return keys, err
	case "deployments":
		deployments, err := allAs[fleet.BundleDeployment](items)
		all := map[view.Key]bool{}
		for _, bd := range deployments {
			keys.deployment(bd)
			all[view.BundleOf(bd)] = true
		}
		if len(all) <= maxGets { // few enough to see what a rollout has not come to
			keys.bundles = slices.Collect(maps.Keys(all))
		}
		return keys, err
	}
	return keys, nil
}

// holders reads what holds back the bundles or deployments that a table is about to
// show.
func (o getOptions) holders(ctx context.Context, s *session, items []*unstructured.Unstructured) (holders, error) {
	h := holders{}
	keys, err := o.held(items)
	if err != nil {
		return h, err
	}
	if h.bundles, err = fetchAs[fleet.Bundle](ctx, s, mustKind("bundles"), keys.bundles); err != nil {
		return h, err
	}
	for _, b := range h.bundles {
		keys.bundle(b)
	}
	if h.clusters, err = fetchAs[fleet.Cluster](ctx, s, mustKind("clusters"), keys.clusters); err != nil {
		return h, err
	}
	h.repos, err = fetchAs[fleet.GitRepo](ctx, s, mustKind("repos"), keys.repos)
	return h, err
}

// maxGets is how many objects are read one by one; for more all are listed.
const maxGets = 5

// fetchAs reads objects by their keys. Those that are not there, or not for this user,
// are left out.
func fetchAs[T any](ctx context.Context, s *session, k kind, keys []view.Key) (map[view.Key]*T, error) {
	wanted := map[view.Key]bool{}
	namespaces := map[string]bool{}
	for _, key := range keys {
		wanted[key], namespaces[key.Namespace] = true, true
	}
	out := map[view.Key]*T{}
	if len(wanted) > maxGets {
		for namespace := range namespaces {
			if err := fetchListed(ctx, s, query{resource: k.resource(), namespace: namespace}, wanted, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for key := range wanted {
		o, err := getAs[T](ctx, s, k.resource(), key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out[key] = o
		}
	}
	return out, nil
}

// fetchListed adds those objects of a list that wanted names; none where the user may
// not list them.
func fetchListed[T any](ctx context.Context, s *session, q query, wanted map[view.Key]bool, out map[view.Key]*T) error {
	items, _, err := s.listed(ctx, q)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return reached(s.server, err)
	}
	for _, u := range items {
		key := view.Key{Namespace: u.GetNamespace(), Name: u.GetName()}
		if !wanted[key] {
			continue
		}
		if out[key], err = as[T](u); err != nil {
			return err
		}
	}
	return nil
}
