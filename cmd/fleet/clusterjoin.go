package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const clusterJoinText = `Makes the Cluster NAME with its labels, and lets one agent in as it.

With --to-context or --to-kubeconfig the agent is installed there, and the command waits until it has checked in:

  fleet cluster join c3 -n fleet-default --label env=prod --to-context c3

Without, it prints the agent's file, to be applied to the new cluster by whoever can reach it:

  fleet cluster join c3 -n fleet-default --label env=prod > c3.yaml

A Cluster of that name that is there already keeps its labels, and its agent comes back to it.`

type clusterJoinOptions struct {
	name    string
	labels  map[string]string
	reach   reachOptions
	ttl     string
	file    string // kubeconfig of the new cluster
	context string
	timeout time.Duration
}

func newClusterJoinCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o clusterJoinOptions
	cmd := &cobra.Command{
		Use: "join NAME", Short: "Let a new cluster in", Long: clusterJoinText, Args: oneCluster,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.name, err = clusterName(args); err != nil {
				return err
			}
			ttl, err := o.check()
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
			if o.file == "" && o.context == "" {
				return runClusterJoin(cmd.Context(), o, ttl, s, nil)
			}
			if o.file == "" {
				o.file = g.kubeconfig
			}
			to, err := g.other(o.file, o.context)
			if err != nil {
				return err
			}
			return runClusterJoin(cmd.Context(), o, ttl, s, &newcomer{access: to, bring: g.bring})
		},
	}
	fs := cmd.Flags()
	labelFlag(fs, &o.labels, "labels of the new Cluster, `k=v,...`")
	fs.StringVar(&o.context, "to-context", "", "`name` of the kubeconfig's context for the new cluster")
	fs.StringVar(&o.file, "to-kubeconfig", "", "kubeconfig `file` of the new cluster")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for the agent, with --to-context or --to-kubeconfig")
	fs.StringVarP(&o.ttl, "ttl", "t", "1d", "`time` until the token in the file ends, such as 12h or 7d; 0: it never ends")
	o.reach.addFlags(fs)
	return cmd
}

// check refuses invalid options, and returns the lifetime of the token.
func (o clusterJoinOptions) check() (time.Duration, error) {
	if why := validation.IsDNS1123Label(o.name); len(why) > 0 {
		return 0, fmt.Errorf("name %q: %s", o.name, why[0])
	}
	if err := install.CheckLabels(o.labels); err != nil {
		return 0, err
	}
	if o.timeout < 0 {
		return 0, errors.New("--timeout must not be below 0")
	}
	ttl, err := install.ParseLifetime(o.ttl)
	if err != nil {
		return 0, fmt.Errorf("--ttl: %w", err)
	}
	return ttl, nil
}

// A newcomer is a cluster that is about to join, where it can be reached.
type newcomer struct {
	access
	bring bringer
}

// runClusterJoin makes the Cluster and a token for its agent. It installs the
// agent on the newcomer and waits for it; without one it prints the agent.
func runClusterJoin(ctx context.Context, o clusterJoinOptions, ttl time.Duration, s *session, to *newcomer) error {
	if err := s.certainCluster(ctx, o.name); err != nil {
		return err
	}
	a, err := s.agent(ctx, o.reach)
	if err != nil {
		return err
	}
	id := s.random(16)
	if to != nil {
		if id, err = to.identity(ctx); err != nil {
			return err
		}
		if err := s.checkUnjoined(ctx, o.name, to.agent(ctx, s.system, id)); err != nil {
			return err
		}
	}
	before, id, err := s.expect(ctx, o, id)
	if err != nil {
		return err
	}
	made, err := s.makeToken(ctx, tokenWish{prefix: "join-" + o.name, single: true, ttl: ttl})
	if err != nil {
		return err
	}
	a.Token, a.ClientID = made.values, id
	objects, err := agentObjects(s.std, a, false)
	if err != nil {
		return err
	}
	if to == nil {
		return printManifest(s.std, aboutAgent(s, made, ttl), objects)
	}
	if err := to.bring(ctx, to.access, objects); err != nil {
		return fmt.Errorf("install the agent on %s: %w", to.server, err)
	}
	s.std.Note("agent installed on %s in namespace %s", to.server, s.system)
	if err := o.await(ctx, s, before); err != nil {
		return err
	}
	return s.endToken(ctx, made.token)
}

// identity is the identity of a cluster: the UID of its namespace kube-system.
func (n newcomer) identity(ctx context.Context) (string, error) {
	u, err := n.api.Get(ctx, namespaces, "", metav1.NamespaceSystem)
	if err != nil {
		return "", fmt.Errorf("identify the new cluster: %w", reached(n.server, err))
	}
	return string(u.GetUID()), nil
}

// agent is what the agent that is installed in a namespace of the newcomer says of it,
// as far as that is there and may be read. uid is that of its namespace kube-system.
func (n newcomer) agent(ctx context.Context, namespace, uid string) registration.Installed {
	var config *corev1.ConfigMap
	if u, err := n.api.Get(ctx, configMaps, namespace, fleet.ConfigMapAgent); err == nil {
		config, _ = as[corev1.ConfigMap](u)
	}
	var secret *corev1.Secret
	if u, err := n.api.Get(ctx, secrets, namespace, fleet.SecretAgent); err == nil {
		secret, _ = as[corev1.Secret](u)
	}
	return registration.ReadInstalled(config, secret, uid)
}

// checkUnjoined refuses a newcomer whose agent checks in as another Cluster: of this
// workspace, or of the one that the agent has registered in.
func (s *session) checkUnjoined(ctx context.Context, name string, there registration.Installed) error {
	clusters, err := s.clustersHere(ctx)
	if err != nil {
		return err
	}
	if k := there.Cluster; k.Name != "" && k.Namespace != s.scope {
		if u, err := s.api.Get(ctx, mustKind("clusters").resource(), k.Namespace, k.Name); err == nil {
			c, err := as[fleet.Cluster](u)
			if err != nil {
				return err
			}
			clusters = append(clusters, c)
		}
	}
	c := there.JoinedAs(clusters, view.Key{Namespace: s.scope, Name: name})
	if c == nil {
		return nil
	}
	return fmt.Errorf("%w: that cluster is %s/%s already (clientID %s); to let it in as %s, first: fleet cluster forget -n %[2]s %[3]s",
		errRefused, c.Namespace, c.Name, c.Spec.ClientID, name)
}

// expect makes the Cluster that an agent with an id is to become, or finds it. It
// returns the time of that Cluster's last check-in, and the client ID to use.
func (s *session) expect(ctx context.Context, o clusterJoinOptions, id string) (before time.Time, clientID string, err error) {
	clusters, err := s.clustersHere(ctx)
	if err != nil {
		return before, "", err
	}
	for _, c := range clusters {
		switch {
		case c.Name != o.name:
		case len(o.labels) > 0:
			return before, "", fmt.Errorf("%w: cluster %s/%s is there already and keeps its labels: leave --label out, or kubectl label it", errRefused, s.scope, c.Name)
		case c.Spec.ClientID == "":
			fields := map[string]any{"spec": map[string]any{"clientID": id}}
			return c.Status.Agent.LastSeen.Time, id, s.merge(ctx, mustKind("clusters"), c.Name, fields)
		default:
			s.std.Note("cluster %s is there already: its agent comes back to it", c.Name)
			return c.Status.Agent.LastSeen.Time, c.Spec.ClientID, nil
		}
	}
	return before, id, s.newCluster(ctx, o, id)
}

func (s *session) clustersHere(ctx context.Context) ([]*fleet.Cluster, error) {
	items, err := s.all(ctx, query{resource: mustKind("clusters").resource(), namespace: s.scope})
	if err != nil {
		return nil, err
	}
	return allAs[fleet.Cluster](items)
}

func (s *session) newCluster(ctx context.Context, o clusterJoinOptions, id string) error {
	c := &fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.scope, Name: o.name, Labels: o.labels},
		Spec:       fleet.ClusterSpec{ClientID: id},
	}
	u, err := loose(c)
	if err != nil {
		return err
	}
	if _, err := s.api.Create(ctx, mustKind("clusters").resource(), u); err != nil {
		return s.uncreated(fmt.Sprintf("make cluster %q", o.name), err)
	}
	text := "without labels"
	if len(o.labels) > 0 {
		text = labels.Set(o.labels).String()
	}
	s.std.Note("cluster %s/%s made, %s", s.scope, o.name, text)
	return nil
}

// errAway says that an agent did not come in time.
var errAway = errors.New("the agent has not checked in")

// await waits until an agent has checked in as the Cluster, later than before.
func (o clusterJoinOptions) await(ctx context.Context, s *session, before time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errAway)
	defer cancel()
	for {
		u, err := s.api.Get(ctx, mustKind("clusters").resource(), s.scope, o.name)
		if err != nil && ctx.Err() == nil {
			return reached(s.server, err)
		}
		if err == nil {
			c, err := as[fleet.Cluster](u)
			if err != nil {
				return err
			}
			if a := c.Status.Agent; a.LastSeen.After(before) {
				printer.Say(s.std.Out, "cluster %s/%s has joined: agent %s, Kubernetes %s\n", s.scope, o.name, cmp.Or(a.Version, "unknown"), cmp.Or(a.Kubernetes, "unknown"))
				return nil
			}
		}
		if kube.Sleep(ctx, tokenPoll) == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), errAway) {
			return fmt.Errorf("%w: %w within %s; what it says: %s -n %s logs deployment/fleet-agent; what the manager says: fleet events -n %s cluster/%s",
				errNotReady, errAway, view.Age(o.timeout), o.kubectl(), s.system, s.scope, o.name)
		}
		return context.Cause(ctx)
	}
}

// kubectl is the command that reaches the new cluster.
func (o clusterJoinOptions) kubectl() string {
	words := []string{"kubectl"}
	if o.file != "" {
		words = append(words, "--kubeconfig", o.file)
	}
	if o.context != "" {
		words = append(words, "--context", o.context)
	}
	return strings.Join(quoted(words), " ")
}

// endToken deletes a token that has done what it was made for.
func (s *session) endToken(ctx context.Context, t *fleet.ClusterRegistrationToken) error {
	err := s.api.Delete(ctx, mustKind("tokens").resource(), t.Namespace, t.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("end registration token %q: %w", t.Name, reached(s.server, err))
	}
	s.std.Note("token %s is ended", t.Name)
	return nil
}
