package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/takeover"
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

// maxHelmOps is how many HelmOps a note names.
const maxHelmOps = 3

// NoteHelmOps notes the HelmOps within -n, on which this version does not act. If the
// list fails, it prints nothing: a status does not depend on it.
func (s *Session) NoteHelmOps(ctx context.Context) {
	list, err := s.HelmOps(ctx)
	if err != nil || len(list) == 0 {
		return
	}
	var names []string
	for _, op := range list[:min(len(list), maxHelmOps)] {
		names = append(names, op.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	s.Std.Note("this version deploys no HelmOps: nothing of %s is deployed", text)
}

// HelmOps are the HelmOps within -n, by name, and why nothing acts on them. A server
// that does not know the kind has none.
func (s *Session) HelmOps(ctx context.Context) ([]TakeoverHelmOp, error) {
	plural, _, _ := fleet.Resource("HelmOp")
	items, _, err := s.Listed(ctx, Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: s.Scope})
	if UnknownResource(err) {
		return nil, nil
	}
	var out []TakeoverHelmOp
	for _, u := range items {
		labels := u.GetLabels()
		reason := takeover.HelmOp(labels)
		if reason == "" {
			continue
		}
		out = append(out, TakeoverHelmOp{Name: u.GetNamespace() + "/" + u.GetName(), Shard: labels[fleet.LabelShardRef],
			Verdict: string(takeover.Unsupported), Autoscaler: labels[takeover.LabelAutoscaled] != "", Reason: reason})
	}
	slices.SortFunc(out, func(a, b TakeoverHelmOp) int { return strings.Compare(a.Name, b.Name) })
	return out, DescribeServerError(s.Server, err)
}

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
	if err == nil && len(f.Clusters)+len(f.Repositories)+len(f.Bundles) == 0 {
		s.EmptyWorkspace()
	}
	return err
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

// TakeoverHelmOp is how it stands with one HelmOp.
type TakeoverHelmOp struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Shard is whose it is; left out for the default manager's.
	Shard string `json:"shard,omitempty"`
	// Verdict is not supported.
	Verdict string `json:"verdict"`
	// Autoscaler reports that it is one of Rancher's cluster autoscaler.
	Autoscaler bool `json:"autoscaler,omitempty"`
	// Reason says why it is not supported.
	Reason string `json:"reason"`
}
