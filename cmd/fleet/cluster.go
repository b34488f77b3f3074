package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const clusterText = `Lets clusters in, shows them, looks after their agents and credentials, and lets them go.`

func newClusterCommand(g *globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "Let clusters in, look after their agents, let them go", Long: clusterText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newClusterJoinCommand(g, std), newClusterListCommand(g, std), newClusterAcceptCommand(g, std), newClusterForgetCommand(g, std),
		newClusterRotateCommand(g, std), newClusterAgentsCommand(g, std),
	)
	return cmd
}

const clusterListText = `Shows clusters, as fleet get clusters does, and on stderr which agents wait to be accepted.`

func newClusterListCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "list [NAME...]", Short: "Show clusters, and who waits to be let in", Long: clusterListText,
		ValidArgsFunction: g.completeObjects(std, clustersGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := clustersGrammar.objects(args)
			if err != nil {
				return err
			}
			kindAndNames := []string{"clusters"}
			for _, r := range refs {
				kindAndNames = append(kindAndNames, r.name)
			}
			if err := o.parse(kindAndNames, g); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if err := runGet(cmd.Context(), o, s); err != nil {
				return err
			}
			return reportWaiting(cmd.Context(), s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, getFormats...)
	fs.StringVarP(&o.labels, "selector", "l", "", "only clusters with labels that match `SELECTOR`")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "all workspaces, with a column for them")
	fs.StringSliceVar(&o.states, "state", nil, "only those in one of these `STATES`: A,B")
	fs.BoolVar(&o.notReady, "not-ready", false, "only those that are not Ready")
	return cmd
}

// asking are the requests for clusters that a person has to accept.
func (s *session) asking(ctx context.Context) ([]*fleet.ClusterRegistration, error) {
	requests, err := listAs[fleet.ClusterRegistration](ctx, s, kind{plural: "clusterregistrations", Kind: "ClusterRegistration"}, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(requests, func(r *fleet.ClusterRegistration) bool {
		return r.Status.Granted || r.Status.ClusterName == "" || registration.External(r)
	}), nil
}

// reportWaiting notes which agents wait to be accepted. A user who may not list
// requests gets no note.
func reportWaiting(ctx context.Context, s *session) error {
	waiting, err := s.asking(ctx)
	if err != nil {
		return nil
	}
	seen := map[view.Key]bool{}
	for _, r := range waiting {
		key := view.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}
		if seen[key] {
			continue
		}
		seen[key] = true
		s.std.Note("another agent asks for %s since %s; to let it in: fleet cluster accept -n %s %s", key.Name,
			view.Ago(r.CreationTimestamp.Time, s.now()), key.Namespace, key.Name)
	}
	return nil
}

const clusterAcceptText = `Lets an agent take a Cluster that has had another one: where the manager's registration.reclaim is approve, it waits until a person says so. Its
request is refused by deleting the ClusterRegistration.

The same is done by: kubectl annotate clusters.fleet.cattle.io NAME ` + fleet.AnnotationAcceptRegistration + `=REQUEST`

func newClusterAcceptCommand(g *globals, std printer.Stdio) *cobra.Command {
	request := ""
	cmd := &cobra.Command{
		Use: "accept NAME", Short: "Let another agent take a cluster", Long: clusterAcceptText, Args: oneCluster,
		ValidArgsFunction: g.completeObjects(std, clusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := clusterName(args)
			if err != nil {
				return err
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runClusterAccept(cmd.Context(), name, request, s)
		},
	}
	cmd.Flags().StringVar(&request, "request", "", "`name` of the request, where several agents ask")
	return cmd
}

// oneCluster refuses arguments that are not one cluster.
func oneCluster(_ *cobra.Command, args []string) error {
	_, err := clusterName(args)
	return err
}

// certainCluster is certain for a cluster.
func (s *session) certainCluster(ctx context.Context, name string) error {
	return s.certain(ctx, []objectRef{{mustKind("clusters"), name}})
}

// clusterName is the name of the one cluster that arguments name.
func clusterName(args []string) (string, error) {
	ref, err := clusterGrammar.one(args)
	return ref.name, err
}

// runClusterAccept accepts the request for a Cluster. Without a request there is
// nothing to accept; of several one has to be named.
func runClusterAccept(ctx context.Context, name, request string, s *session) error {
	if err := s.certainCluster(ctx, name); err != nil {
		return err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	k := mustKind("clusters")
	u, err := s.present(ctx, k, name)
	if err != nil {
		return err
	}
	c, err := as[fleet.Cluster](u)
	if err != nil {
		return err
	}
	waiting, err := s.asking(ctx)
	if err != nil {
		return err
	}
	held := registration.Held(c, waiting)
	if request != "" {
		held = slices.DeleteFunc(held, func(r *fleet.ClusterRegistration) bool { return r.Name != request })
	}
	switch {
	case len(held) == 0 && request != "":
		return fmt.Errorf("request %q does not wait for cluster %s/%s", request, s.scope, name)
	case len(held) == 0:
		return fmt.Errorf("no agent asks for cluster %s/%s; fleet cluster list says which are asked for", s.scope, name)
	case len(held) > 1:
		var names []string
		for _, r := range held {
			names = append(names, s.asked(r))
		}
		return fmt.Errorf("%w: %d agents ask for cluster %s/%s: %s; name one with --request", errRefused, len(held), s.scope, name, strings.Join(names, ", "))
	}
	accept := map[string]any{fleet.AnnotationAcceptRegistration: held[0].Name}
	if err := s.merge(ctx, k, name, map[string]any{"metadata": map[string]any{"annotations": accept}}); err != nil {
		return err
	}
	printer.Say(s.std.Out, "accepted %s: it takes cluster %s/%s, and the agent before it loses its credential\n", s.asked(held[0]), s.scope, name)
	return nil
}

// asked names a request with its age and the token that it was made with.
func (s *session) asked(r *fleet.ClusterRegistration) string {
	text := fmt.Sprintf("%s (%s", r.Name, view.Ago(r.CreationTimestamp.Time, s.now()))
	if token := r.Labels[fleet.LabelRegistrationToken]; token != "" {
		text += ", by token " + token
	}
	return text + ")"
}

const clusterForgetText = `Removes a Cluster from the fleet: its agent loses its credential, and the manager what it knew. Nothing that runs on the cluster is removed, and its
agent goes on keeping that as it is.

A cluster whose agent has checked in lately is forgotten only with --yes.

With --uninstall everything that Fleet has deployed there is removed before, by the cluster's own agent, which has to be there; what says
keepResources stays. The command says what would go and does nothing without --yes. What has not gone after --timeout is given up and named
(exit 6). Until then removing the annotation ` + fleet.AnnotationUninstall + ` from the Cluster brings everything back.`

// forgetOptions are the options of forgetting a cluster.
type forgetOptions struct {
	name      string
	yes       bool
	uninstall bool
	timeout   time.Duration
}

func newClusterForgetCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o forgetOptions
	cmd := &cobra.Command{
		Use: "forget NAME", Short: "Let a cluster go; what runs there stays", Long: clusterForgetText, Args: oneCluster,
		Example:           "  fleet cluster forget -n fleet-default c1 --yes\n  fleet cluster forget -n fleet-default c1 --uninstall --yes",
		ValidArgsFunction: g.completeObjects(std, clusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.name, err = clusterName(args); err != nil {
				return err
			}
			if o.timeout <= 0 {
				return errors.New("--timeout must be above 0")
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runClusterForget(cmd.Context(), o, s)
		},
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "also a cluster whose agent is there")
	cmd.Flags().BoolVar(&o.uninstall, "uninstall", false, "remove what Fleet has deployed there before")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "with --uninstall: wait so long for the agent at most")
	return cmd
}

// runClusterForget deletes a Cluster.
func runClusterForget(ctx context.Context, o forgetOptions, s *session) error {
	if err := s.certainCluster(ctx, o.name); err != nil {
		return err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	c, err := s.clusterHere(ctx, o.name)
	if err != nil {
		return err
	}
	seen := c.Status.Agent.LastSeen.Time
	stays, left := "what runs there stays", []string(nil)
	if o.uninstall {
		had := 0
		if had, left, err = s.empty(ctx, o, c); err != nil {
			return err
		}
		switch stays = "what Fleet had deployed there is removed"; {
		case had == 0:
			stays = "nothing was deployed there"
		case len(left) > 0:
			stays = fmt.Sprintf("given up, and still there: %s", strings.Join(left, "; "))
		}
	} else if why := keptBecause(c); why != "" && !o.yes {
		return fmt.Errorf("%w: cluster %s/%s %s; to forget it all the same: --yes", errRefused, s.scope, o.name, fmt.Sprintf(why, view.Ago(seen, s.now())))
	}
	if err := s.api.Delete(ctx, mustKind("clusters").resource(), s.scope, o.name); err != nil {
		return reached(s.server, err)
	}
	printer.Say(s.std.Out, "cluster %s/%s is forgotten; %s\n", s.scope, o.name, stays)
	if !seen.IsZero() {
		s.std.Note("to take the agent off there: kubectl -n %s delete deployment fleet-agent", cmp.Or(c.Status.Agent.Namespace, s.system))
	}
	if len(left) > 0 {
		return endingWith(errPartly)
	}
	return nil
}

// keptBecause is why a Cluster is not forgotten without a second word; empty if
// it may go. "%s" in it is how long ago its agent was seen.
func keptBecause(c *fleet.Cluster) string {
	switch {
	case !c.Status.Agent.LastSeen.IsZero() && view.ClusterState(c) != fleet.Offline:
		return "checked in %s ago"
	case c.Namespace == fleet.NamespaceLocal && c.Name == fleet.ClusterLocal:
		return "is the manager's own (last seen %s ago), which comes back while the chart's bootstrap.enabled is true"
	}
	return ""
}
