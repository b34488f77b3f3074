package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// withdrawAll orders that everything be withdrawn from a cluster, and waits until it is
// gone. It returns how many deployments it had, and what is still there after the
// timeout, each with the reason.
func withdrawAll(ctx context.Context, s *client.Session, o ForgetOptions, c *fleet.Cluster) (int, []string, error) {
	deployed, err := deployedTo(ctx, s, c)
	if err != nil {
		return 0, nil, err
	}
	if why := unreachable(c, s.Now()); why != "" && len(deployed) > 0 {
		return 0, nil, fmt.Errorf("%w: cluster %s/%s %s, so that nothing could be removed there; without --uninstall it is forgotten as it is", cli.ErrRefused, s.Scope, o.Name, why)
	}
	if n := len(deployed); n > 0 && !o.Yes {
		return 0, nil, fmt.Errorf("%w: this removes from cluster %s/%s all that Fleet has deployed there (%d: %s); to do so: --yes",
			cli.ErrRefused, s.Scope, o.Name, n, view.List(namesOf(deployed), 5))
	}
	if why := keptBecause(c); why != "" && !o.Yes {
		return 0, nil, fmt.Errorf("%w: cluster %s/%s %s; to forget it all the same: --yes", cli.ErrRefused, s.Scope, o.Name, fmt.Sprintf(why, view.Ago(c.Status.Agent.LastSeen.Time, s.Now())))
	}
	if len(deployed) == 0 {
		return 0, nil, nil
	}
	order := s.Now().UTC().Format(time.RFC3339) + "." + s.Random(4)
	fields := map[string]any{"metadata": map[string]any{"annotations": map[string]any{fleet.AnnotationUninstall: order}}}
	if err := s.Merge(ctx, cli.MustKind("clusters"), o.Name, fields); err != nil {
		return 0, nil, err
	}
	s.Std.Note("ordered: %d deployments of cluster %s/%s are withdrawn", len(deployed), s.Scope, o.Name)
	left, err := waitUntilEmpty(ctx, s, o, c)
	return len(deployed), left, err
}

// waitUntilEmpty waits until nothing is deployed to a cluster any more.
func waitUntilEmpty(ctx context.Context, s *client.Session, o ForgetOptions, c *fleet.Cluster) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, client.ErrLeft)
	defer cancel()
	last := -1
	for {
		deployed, err := deployedTo(context.WithoutCancel(ctx), s, c)
		if err != nil {
			return nil, err
		}
		if len(deployed) == 0 {
			return nil, nil
		}
		if last >= 0 && len(deployed) != last {
			s.Std.Note("%d left", len(deployed))
		}
		last = len(deployed)
		if kube.Sleep(ctx, client.TokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), client.ErrLeft) {
			return nil, context.Cause(ctx)
		}
		left := make([]string, len(deployed))
		for i, bd := range deployed {
			left[i] = bd.Name
			if text := view.DeploymentMessage(bd); text != "" {
				left[i] += " (" + text + ")"
			}
		}
		return left, nil
	}
}

// deployedTo is what is deployed to a cluster, but its agent, by name.
func deployedTo(ctx context.Context, s *client.Session, c *fleet.Cluster) ([]*fleet.BundleDeployment, error) {
	if c.Status.Namespace == "" {
		return nil, nil
	}
	items, err := s.ListAll(ctx, client.Query{Resource: cli.MustKind("deployments").Resource(), Namespace: c.Status.Namespace})
	if err != nil {
		return nil, err
	}
	deployed, err := client.AllAs[fleet.BundleDeployment](items)
	return slices.DeleteFunc(deployed, func(bd *fleet.BundleDeployment) bool { return bd.Name == naming.AgentBundle(c.Name) }), err
}

func namesOf(list []*fleet.BundleDeployment) []string {
	out := make([]string, len(list))
	for i, bd := range list {
		out[i] = bd.Name
	}
	return out
}

// unreachable is why the agent of a cluster removes nothing now; empty where it
// does.
func unreachable(c *fleet.Cluster, now time.Time) string {
	switch {
	case c.Status.Agent.LastSeen.IsZero():
		return "has never had an agent"
	case view.ClusterState(c) == fleet.Offline:
		return "is Offline, last seen " + view.Ago(c.Status.Agent.LastSeen.Time, now) + " ago"
	}
	return ""
}
