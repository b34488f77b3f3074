package get

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// readHolders are objects that may hold back what rows show, as far as the user may read
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
type holdKeys struct{ repos, bundles, clusters []view.Key }

// bundle notes what may hold a Bundle back.
func (h *holdKeys) bundle(b *fleet.Bundle) {
	if name := b.Labels[fleet.LabelRepoName]; b.Spec.Paused && name != "" {
		h.repos = append(h.repos, view.Key{Namespace: b.Namespace, Name: name})
	}
}

// deployment notes what may hold a BundleDeployment back.
func (h *holdKeys) deployment(bd *fleet.BundleDeployment) {
	if view.HeldBack(bd) {
		h.bundles = append(h.bundles, view.BundleOf(bd))
	}
	if bd.Spec.Paused {
		h.clusters = append(h.clusters, view.ClusterOf(bd))
	}
}

// holdKeysOf returns the keys for what a table is about to show; none for other kinds than
// bundles and deployments, and where no object is held back.
func (o Options) holdKeysOf(items []*unstructured.Unstructured) (holdKeys, error) {
	var keys holdKeys
	if o.Output.IsMachineReadable() {
		return keys, nil
	}
	switch o.kind.Plural {
	case "bundles":
		bundles, err := client.AllAs[fleet.Bundle](items)
		for _, b := range bundles {
			keys.bundle(b)
		}
		return keys, err
	case "deployments":
		deployments, err := client.AllAs[fleet.BundleDeployment](items)
		all := map[view.Key]bool{}
		for _, bd := range deployments {
			keys.deployment(bd)
			all[view.BundleOf(bd)] = true
		}
		if len(all) <= client.MaxGets { // few enough to see what a rollout has not come to
			keys.bundles = slices.Collect(maps.Keys(all))
		}
		return keys, err
	}
	return keys, nil
}

// readHolders reads what holds back the bundles or deployments that a table is about to
// show.
func (o Options) readHolders(ctx context.Context, s *client.Session, items []*unstructured.Unstructured) (holders, error) {
	h := holders{}
	keys, err := o.holdKeysOf(items)
	if err != nil {
		return h, err
	}
	if h.bundles, err = client.FetchAs[fleet.Bundle](ctx, s, cli.MustKind("bundles"), keys.bundles); err != nil {
		return h, err
	}
	for _, b := range h.bundles {
		keys.bundle(b)
	}
	if h.clusters, err = client.FetchAs[fleet.Cluster](ctx, s, cli.MustKind("clusters"), keys.clusters); err != nil {
		return h, err
	}
	h.repos, err = client.FetchAs[fleet.GitRepo](ctx, s, cli.MustKind("repos"), keys.repos)
	return h, err
}
