package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// RotateOptions are the flags and the arguments of fleet cluster rotate.
type RotateOptions struct {
	Name    string
	Timeout time.Duration
	NoWait  bool
}

// Rotate orders another credential, and waits until the agent uses it.
func Rotate(ctx context.Context, o RotateOptions, s *client.Session) error {
	if err := s.CertainCluster(ctx, o.Name); err != nil {
		return err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	k := cli.MustKind("clusters")
	c, err := clusterHere(ctx, s, o.Name)
	if err != nil {
		return err
	}
	if registration.External(c) {
		return fmt.Errorf("%w: another program manages the agent of cluster %s/%s (label %s)", cli.ErrRefused, s.Scope, o.Name, fleet.LabelClusterManagement)
	}
	if c.Status.Agent.LastSeen.IsZero() {
		return fmt.Errorf("%w: the agent of cluster %s/%s has never checked in: there is no credential to rotate", cli.ErrRefused, s.Scope, o.Name)
	}
	order := s.Now().UTC().Format(time.RFC3339) + "." + s.Random(4)
	fields := map[string]any{"metadata": map[string]any{"annotations": map[string]any{fleet.AnnotationRotate: order}}}
	if err := s.Merge(ctx, k, o.Name, fields); err != nil {
		return err
	}
	absence, err := s.Absence(ctx, view.ShardOf(c))
	if err != nil {
		return err
	}
	if absence != "" {
		s.Std.Note("%s: the agent is given no credential meanwhile", absence)
	}
	seen := c.Status.Agent.LastSeen.Time
	switch {
	case o.NoWait:
		printer.Fprintf(s.Std.Out, "another credential for cluster %s/%s is ordered\n", s.Scope, o.Name)
		return nil
	case c.Status.Display.State == fleet.Offline:
		printer.Fprintf(s.Std.Out, "another credential for cluster %s/%s is ordered; it is Offline, last seen %s (%s ago), and takes it when it is back: until then the one before is good\n",
			s.Scope, o.Name, view.Clock(seen, s.Now()), view.Ago(seen, s.Now()))
		return cli.EndingWith(cli.ErrPartly)
	}
	if absence == "" {
		s.Std.Note("ordered; the agent hears of it with its next check-in")
	}
	return o.awaitRotation(ctx, s, order)
}

// errUntaken says that an agent did not take a credential in time.
var errUntaken = errors.New("the agent has not taken it")

// awaitRotation waits until the manager has taken the order down.
func (o RotateOptions) awaitRotation(ctx context.Context, s *client.Session, order string) error {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, errUntaken)
		defer cancel()
	}
	shard := ""
	for why := ""; ; {
		c, err := clusterHere(ctx, s, o.Name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			switch c.Annotations[fleet.AnnotationRotate] {
			case order:
			case "":
				printer.Fprintf(s.Std.Out, "the agent of cluster %s/%s uses a new credential; the one before is void\n", s.Scope, o.Name)
				return nil
			default:
				return fmt.Errorf("somebody else has ordered another credential for cluster %s/%s meanwhile", s.Scope, o.Name)
			}
			why, shard = "", view.ShardOf(c)
			if about := condition.Find(c.Status.Conditions, fleet.ConditionCredential); about != nil {
				why = ": " + about.Message
			}
		}
		if kube.Sleep(ctx, client.TokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), errUntaken) {
			return context.Cause(ctx)
		}
		if absence, err := s.Absence(context.WithoutCancel(ctx), shard); err == nil && absence != "" {
			why = ": " + absence
		}
		return fmt.Errorf("%w: %w within %s%s; the order stands: fleet events -n %s cluster/%s", cli.ErrNotReady, errUntaken, o.Timeout, why, s.Scope, o.Name)
	}
}

// clusterHere reads a cluster of the workspace.
func clusterHere(ctx context.Context, s *client.Session, name string) (*fleet.Cluster, error) {
	u, err := s.Present(ctx, cli.MustKind("clusters"), name)
	if err != nil {
		return nil, err
	}
	return client.Convert[fleet.Cluster](u)
}
