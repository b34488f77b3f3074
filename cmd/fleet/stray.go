package main

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A GitRepo and its Bundles go to the clusters of their own namespace. In a namespace
// without clusters, such as default, they match no cluster, with any targets.

// withClusters are the namespaces that have clusters and that the user may list, by name.
func (s *session) withClusters(ctx context.Context) []string {
	all := *s
	all.scope, all.narrowed = "", true
	items, err := all.everywhereOf(ctx, mustKind("clusters"))
	if err != nil {
		return nil
	}
	var out []string
	for _, u := range items {
		out = append(out, u.GetNamespace())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noteStray notes which of some namespaces have no clusters, and which others have.
func (s *session) noteStray(ctx context.Context, spaces []string) {
	if len(spaces) == 0 {
		return
	}
	with := s.withClusters(ctx)
	for _, ns := range spaces {
		if len(with) > 0 && !slices.Contains(with, ns) {
			s.std.Note("%s", view.NoClusters(ns, with))
		}
	}
}

// stray are the namespaces of GitRepos and Bundles that match no cluster, by name.
func (o getOptions) stray(entries []entry) []string {
	if o.kind.plural != "repos" && o.kind.plural != "bundles" {
		return nil
	}
	var out []string
	for _, e := range entries {
		if untargeted(e.object) {
			out = append(out, e.object.GetNamespace())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func untargeted(u *unstructured.Unstructured) bool {
	o, err := as[struct {
		Status struct {
			Conditions []fleet.Condition `json:"conditions"`
		} `json:"status"`
	}](u)
	return err == nil && view.Untargeted(o.Status.Conditions)
}
