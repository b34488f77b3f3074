package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const clusterRotateText = `Gives the agent of a cluster another credential. The agent fetches the new one with the one that it has, tries it, and uses it; then the one before
and every token of it are void. Nothing that runs is touched, and no connection is cut.

An agent that is Offline takes the new credential when it is back (exit 6); until then the one before is good. Who fears that somebody else
uses an agent's credential at this moment does not rotate it, since he could fetch the new one as well: he revokes it, and lets the cluster
join again (docs/security.md).

The same is done by: kubectl annotate clusters.fleet.cattle.io NAME ` + fleet.AnnotationRotate + `=WORD`

type clusterRotateOptions struct {
	name    string
	timeout time.Duration
	noWait  bool
}

func newClusterRotateCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o clusterRotateOptions
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Give the agent of a cluster another credential", Long: clusterRotateText, Args: oneCluster,
		Example:           "  fleet cluster rotate -n fleet-default c1",
		ValidArgsFunction: g.completeObjects(std, clusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.name, err = clusterName(args); err != nil {
				return err
			}
			if o.timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runClusterRotate(cmd.Context(), o, s)
		},
	}
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "wait so long for the agent at most; 0 is without end")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "order it, and do not wait")
	return cmd
}

// runClusterRotate orders another credential, and waits until the agent uses it.
func runClusterRotate(ctx context.Context, o clusterRotateOptions, s *session) error {
	if err := s.certainCluster(ctx, o.name); err != nil {
		return err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	k := mustKind("clusters")
	c, err := s.clusterHere(ctx, o.name)
	if err != nil {
		return err
	}
	if registration.External(c) {
		return fmt.Errorf("%w: another program manages the agent of cluster %s/%s (label %s)", errRefused, s.scope, o.name, fleet.LabelClusterManagement)
	}
	if c.Status.Agent.LastSeen.IsZero() {
		return fmt.Errorf("%w: the agent of cluster %s/%s has never checked in: there is no credential to rotate", errRefused, s.scope, o.name)
	}
	order := s.now().UTC().Format(time.RFC3339) + "." + s.random(4)
	fields := map[string]any{"metadata": map[string]any{"annotations": map[string]any{fleet.AnnotationRotate: order}}}
	if err := s.merge(ctx, k, o.name, fields); err != nil {
		return err
	}
	absence, err := s.absence(ctx, view.ShardOf(c))
	if err != nil {
		return err
	}
	if absence != "" {
		s.std.Note("%s: the agent is given no credential meanwhile", absence)
	}
	seen := c.Status.Agent.LastSeen.Time
	switch {
	case o.noWait:
		printer.Say(s.std.Out, "another credential for cluster %s/%s is ordered\n", s.scope, o.name)
		return nil
	case c.Status.Display.State == fleet.Offline:
		printer.Say(s.std.Out, "another credential for cluster %s/%s is ordered; it is Offline, last seen %s (%s ago), and takes it when it is back: until then the one before is good\n",
			s.scope, o.name, view.Clock(seen, s.now()), view.Ago(seen, s.now()))
		return endingWith(errPartly)
	}
	if absence == "" {
		s.std.Note("ordered; the agent hears of it with its next check-in")
	}
	return o.await(ctx, s, order)
}

// errUntaken says that an agent did not take a credential in time.
var errUntaken = errors.New("the agent has not taken it")

// await waits until the manager has taken the order down.
func (o clusterRotateOptions) await(ctx context.Context, s *session, order string) error {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errUntaken)
		defer cancel()
	}
	shard := ""
	for why := ""; ; {
		c, err := s.clusterHere(ctx, o.name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			switch c.Annotations[fleet.AnnotationRotate] {
			case order:
			case "":
				printer.Say(s.std.Out, "the agent of cluster %s/%s uses a new credential; the one before is void\n", s.scope, o.name)
				return nil
			default:
				return fmt.Errorf("somebody else has ordered another credential for cluster %s/%s meanwhile", s.scope, o.name)
			}
			why, shard = "", view.ShardOf(c)
			if about := condition.Find(c.Status.Conditions, fleet.ConditionCredential); about != nil {
				why = ": " + about.Message
			}
		}
		if kube.Sleep(ctx, tokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), errUntaken) {
			return context.Cause(ctx)
		}
		if absence, err := s.absence(context.WithoutCancel(ctx), shard); err == nil && absence != "" {
			why = ": " + absence
		}
		return fmt.Errorf("%w: %w within %s%s; the order stands: fleet events -n %s cluster/%s", errNotReady, errUntaken, o.timeout, why, s.scope, o.name)
	}
}

// clusterHere reads a cluster of the workspace.
func (s *session) clusterHere(ctx context.Context, name string) (*fleet.Cluster, error) {
	u, err := s.present(ctx, mustKind("clusters"), name)
	if err != nil {
		return nil, err
	}
	return as[fleet.Cluster](u)
}
