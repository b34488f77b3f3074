package client

import (
	"context"
	"slices"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A GitRepo and its Bundles go to the clusters of their own namespace. In a namespace
// without clusters, such as default, they match no cluster, with any targets.

// WithClusters are the namespaces that have clusters and that the user may list, by name.
func (s *Session) WithClusters(ctx context.Context) []string {
	all := *s
	all.Scope, all.Narrowed = "", true
	items, err := all.EverywhereOf(ctx, cli.MustKind("clusters"))
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

// NoteStray notes which of some namespaces have no clusters, and which others have.
func (s *Session) NoteStray(ctx context.Context, spaces []string) {
	if len(spaces) == 0 {
		return
	}
	with := s.WithClusters(ctx)
	for _, ns := range spaces {
		if len(with) > 0 && !slices.Contains(with, ns) {
			s.Std.Note("%s", view.NoClusters(ns, with))
		}
	}
}

// MaxPaused is how many objects that are paused the screen has, unless -o wide asks
// for all.
const MaxPaused = 20

// EmptyWorkspace notes that nothing of Fleet is in the workspace of -n.
func (s *Session) EmptyWorkspace() {
	if s.Scope != "" {
		s.Std.Note("workspace %s is empty: it has no clusters, repositories and bundles", s.Scope)
	}
}

// NoteEmpty is EmptyWorkspace, after a look at the workspace of -n.
func (s *Session) NoteEmpty(ctx context.Context) error {
	if s.Scope == "" {
		return nil
	}
	f, err := s.ReadFleet(ctx)
	if err == nil && len(f.Clusters)+len(f.Repositories)+len(f.HelmOps)+len(f.Bundles) == 0 {
		s.EmptyWorkspace()
	}
	return err
}

// NoteHelmOpsHidden notes that this user may not see the HelmOps of a fleet.
func (s *Session) NoteHelmOpsHidden(f view.Fleet) {
	if f.HelmOpsHidden {
		s.Std.Note("this user may not list helmops: they are left out")
	}
}

// Surroundings are the manager and the brake.
func (s *Session) Surroundings(ctx context.Context) (view.Manager, view.GlobalPause, error) {
	m, err := s.Manager(ctx)
	if err != nil {
		return view.Manager{}, view.GlobalPause{}, err
	}
	b, err := s.GlobalPause(ctx)
	return m, b, err
}

// NoteManagerHidden notes that this user may not see whether the manager runs.
func (s *Session) NoteManagerHidden(m view.Manager) {
	if m.Hidden {
		s.Std.Note("this user may not see leases in %s: whether the manager runs is not known", s.System)
	}
}
