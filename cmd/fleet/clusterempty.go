package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// errLeft says that not everything has gone in time.
var errLeft = errors.New("not everything is gone")

// empty orders that everything be withdrawn from a cluster, and waits until it is
// gone. It returns how many deployments it had, and what is still there after the
// timeout, each with the reason.
func (s *session) empty(ctx context.Context, o forgetOptions, c *fleet.Cluster) (int, []string, error) {
	deployed, err := s.deployedTo(ctx, c)
	if err != nil {
		return 0, nil, err
	}
	if why := unreachable(c, s.now()); why != "" && len(deployed) > 0 {
		return 0, nil, fmt.Errorf("%w: cluster %s/%s %s, so that nothing could be removed there; without --uninstall it is forgotten as it is", errRefused, s.scope, o.name, why)
	}
	if n := len(deployed); n > 0 && !o.yes {
		return 0, nil, fmt.Errorf("%w: this removes from cluster %s/%s all that Fleet has deployed there (%d: %s); to do so: --yes",
			errRefused, s.scope, o.name, n, view.List(namesOf(deployed), 5))
	}
	if why := keptBecause(c); why != "" && !o.yes {
		return 0, nil, fmt.Errorf("%w: cluster %s/%s %s; to forget it all the same: --yes", errRefused, s.scope, o.name, fmt.Sprintf(why, view.Ago(c.Status.Agent.LastSeen.Time, s.now())))
	}
	if len(deployed) == 0 {
		return 0, nil, nil
	}
	order := s.now().UTC().Format(time.RFC3339) + "." + s.random(4)
	fields := map[string]any{"metadata": map[string]any{"annotations": map[string]any{fleet.AnnotationUninstall: order}}}
	if err := s.merge(ctx, mustKind("clusters"), o.name, fields); err != nil {
		return 0, nil, err
	}
	s.std.Note("ordered: %d deployments of cluster %s/%s are withdrawn", len(deployed), s.scope, o.name)
	left, err := s.emptied(ctx, o, c)
	return len(deployed), left, err
}

// emptied waits until nothing is deployed to a cluster any more.
func (s *session) emptied(ctx context.Context, o forgetOptions, c *fleet.Cluster) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errLeft)
	defer cancel()
	last := -1
	for {
		deployed, err := s.deployedTo(context.WithoutCancel(ctx), c)
		if err != nil {
			return nil, err
		}
		if len(deployed) == 0 {
			return nil, nil
		}
		if last >= 0 && len(deployed) != last {
			s.std.Note("%d left", len(deployed))
		}
		last = len(deployed)
		if kube.Sleep(ctx, tokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), errLeft) {
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
func (s *session) deployedTo(ctx context.Context, c *fleet.Cluster) ([]*fleet.BundleDeployment, error) {
	if c.Status.Namespace == "" {
		return nil, nil
	}
	items, err := s.all(ctx, query{resource: mustKind("deployments").resource(), namespace: c.Status.Namespace})
	if err != nil {
		return nil, err
	}
	deployed, err := allAs[fleet.BundleDeployment](items)
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
