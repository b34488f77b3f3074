package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// pendingRequests are the requests for clusters that a person has to accept.
func pendingRequests(ctx context.Context, s *client.Session) ([]*fleet.ClusterRegistration, error) {
	requests, err := client.ListAs[fleet.ClusterRegistration](ctx, s, cli.Kind{Plural: "clusterregistrations", Kind: "ClusterRegistration"}, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(requests, func(r *fleet.ClusterRegistration) bool {
		return r.Status.Granted || r.Status.ClusterName == "" || registration.External(r)
	}), nil
}

// ReportWaiting notes which agents wait to be accepted. A user who may not list
// requests gets no note.
func ReportWaiting(ctx context.Context, s *client.Session) error {
	waiting, err := pendingRequests(ctx, s)
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
		s.Std.Note("another agent asks for %s since %s; to let it in: fleet cluster accept -n %s %s", key.Name,
			view.Ago(r.CreationTimestamp.Time, s.Now()), key.Namespace, key.Name)
	}
	return nil
}

// OneCluster refuses arguments that are not one cluster.
func OneCluster(_ *cobra.Command, args []string) error {
	_, err := NameOf(args)
	return err
}

// NameOf is the name of the one cluster that arguments name.
func NameOf(args []string) (string, error) {
	ref, err := cli.ClusterGrammar.ParseOne(args)
	return ref.Name, err
}

// Accept accepts the request for a Cluster. Without a request there is
// nothing to accept; of several one has to be named.
func Accept(ctx context.Context, name, request string, s *client.Session) error {
	if err := s.CertainCluster(ctx, name); err != nil {
		return err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	k := cli.MustKind("clusters")
	u, err := s.Present(ctx, k, name)
	if err != nil {
		return err
	}
	c, err := client.Convert[fleet.Cluster](u)
	if err != nil {
		return err
	}
	waiting, err := pendingRequests(ctx, s)
	if err != nil {
		return err
	}
	held := registration.WaitingRequests(c, waiting)
	if request != "" {
		held = slices.DeleteFunc(held, func(r *fleet.ClusterRegistration) bool { return r.Name != request })
	}
	switch {
	case len(held) == 0 && request != "":
		return fmt.Errorf("request %q does not wait for cluster %s/%s", request, s.Scope, name)
	case len(held) == 0:
		return fmt.Errorf("no agent asks for cluster %s/%s; fleet cluster list says which are asked for", s.Scope, name)
	case len(held) > 1:
		var names []string
		for _, r := range held {
			names = append(names, requestText(s, r))
		}
		return fmt.Errorf("%w: %d agents ask for cluster %s/%s: %s; name one with --request", cli.ErrRefused, len(held), s.Scope, name, strings.Join(names, ", "))
	}
	accept := map[string]any{fleet.AnnotationAcceptRegistration: held[0].Name}
	if err := s.Merge(ctx, k, name, map[string]any{"metadata": map[string]any{"annotations": accept}}); err != nil {
		return err
	}
	printer.Fprintf(s.Std.Out, "accepted %s: it takes cluster %s/%s, and the agent before it loses its credential\n", requestText(s, held[0]), s.Scope, name)
	return nil
}

// requestText names a request with its age and the token that it was made with.
func requestText(s *client.Session, r *fleet.ClusterRegistration) string {
	text := fmt.Sprintf("%s (%s", r.Name, view.Ago(r.CreationTimestamp.Time, s.Now()))
	if token := r.Labels[fleet.LabelRegistrationToken]; token != "" {
		text += ", by token " + token
	}
	return text + ")"
}

// ForgetOptions are the options of forgetting a cluster.
type ForgetOptions struct {
	Name      string
	Yes       bool
	Uninstall bool
	Timeout   time.Duration
}

// DeleteCluster deletes a Cluster.
func DeleteCluster(ctx context.Context, o ForgetOptions, s *client.Session) error {
	if err := s.CertainCluster(ctx, o.Name); err != nil {
		return err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	c, err := clusterHere(ctx, s, o.Name)
	if err != nil {
		return err
	}
	seen := c.Status.Agent.LastSeen.Time
	stays, left := "what runs there stays", []string(nil)
	if o.Uninstall {
		had := 0
		if had, left, err = withdrawAll(ctx, s, o, c); err != nil {
			return err
		}
		switch stays = "what Fleet had deployed there is removed"; {
		case had == 0:
			stays = "nothing was deployed there"
		case len(left) > 0:
			stays = fmt.Sprintf("given up, and still there: %s", strings.Join(left, "; "))
		}
	} else if why := keptBecause(c); why != "" && !o.Yes {
		return fmt.Errorf("%w: cluster %s/%s %s; to forget it all the same: --yes", cli.ErrRefused, s.Scope, o.Name, fmt.Sprintf(why, view.Ago(seen, s.Now())))
	}
	if err := s.API.Delete(ctx, cli.MustKind("clusters").Resource(), s.Scope, o.Name); err != nil {
		return client.DescribeServerError(s.Server, err)
	}
	printer.Fprintf(s.Std.Out, "cluster %s/%s is forgotten; %s\n", s.Scope, o.Name, stays)
	if !seen.IsZero() {
		s.Std.Note("to take the agent off there: kubectl -n %s delete deployment fleet-agent", cmp.Or(c.Status.Agent.Namespace, s.System))
	}
	if len(left) > 0 {
		return cli.EndingWith(cli.ErrPartly)
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
