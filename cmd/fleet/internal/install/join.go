package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// JoinOptions are the flags and the arguments of fleet cluster join.
type JoinOptions struct {
	Name    string
	Labels  map[string]string
	Reach   ReachOptions
	TTL     string
	File    string // kubeconfig of the new cluster
	Context string
	Timeout time.Duration
}

// Check refuses invalid options, and returns the lifetime of the token.
func (o JoinOptions) Check() (time.Duration, error) {
	if why := validation.IsDNS1123Label(o.Name); len(why) > 0 {
		return 0, fmt.Errorf("name %q: %s", o.Name, why[0])
	}
	if err := install.CheckLabels(o.Labels); err != nil {
		return 0, err
	}
	if o.Timeout < 0 {
		return 0, errors.New("--timeout must not be below 0")
	}
	ttl, err := install.ParseLifetime(o.TTL)
	if err != nil {
		return 0, fmt.Errorf("--ttl: %w", err)
	}
	return ttl, nil
}

// A joiningCluster is a cluster that is about to join, where it can be reached.
type joiningCluster struct {
	client.Access
	bring client.Applier
}

// Join makes the Cluster and a token for its agent. It installs the agent on the cluster
// of another kubeconfig or context and waits for it; without one it prints the agent.
func Join(ctx context.Context, g *client.Globals, o JoinOptions, ttl time.Duration, s *client.Session) error {
	if o.File == "" && o.Context == "" {
		return joinCluster(ctx, o, ttl, s, nil)
	}
	if o.File == "" {
		o.File = g.Kubeconfig
	}
	to, err := g.Other(o.File, o.Context)
	if err != nil {
		return err
	}
	return joinCluster(ctx, o, ttl, s, &joiningCluster{to, g.Bring})
}

// joinCluster is Join with the cluster that joins, where it can be reached.
func joinCluster(ctx context.Context, o JoinOptions, ttl time.Duration, s *client.Session, to *joiningCluster) error {
	if err := s.CertainCluster(ctx, o.Name); err != nil {
		return err
	}
	a, err := agent(ctx, s, o.Reach)
	if err != nil {
		return err
	}
	id := s.Random(16)
	if to != nil {
		if id, err = to.identity(ctx); err != nil {
			return err
		}
		if err := checkUnjoined(ctx, s, o.Name, to.agent(ctx, s.System, id)); err != nil {
			return err
		}
	}
	before, id, err := ensureCluster(ctx, s, o, id)
	if err != nil {
		return err
	}
	made, err := makeToken(ctx, s, tokenRequest{prefix: "join-" + o.Name, single: true, ttl: ttl})
	if err != nil {
		return err
	}
	a.Token, a.ClientID = made.values, id
	objects, err := agentObjects(s.Std, a, false)
	if err != nil {
		return err
	}
	if to == nil {
		return PrintManifest(s.Std, aboutAgent(s, made, ttl), objects)
	}
	if err := to.bring(ctx, to.Access, objects); err != nil {
		return fmt.Errorf("install the agent on %s: %w", to.Server, err)
	}
	s.Std.Note("agent installed on %s in namespace %s", to.Server, s.System)
	if err := o.awaitCheckIn(ctx, s, before); err != nil {
		return err
	}
	return endToken(ctx, s, made.token)
}

// identity is the identity of a cluster: the UID of its namespace kube-system.
func (j joiningCluster) identity(ctx context.Context) (string, error) {
	u, err := j.API.Get(ctx, client.Namespaces, "", metav1.NamespaceSystem)
	if err != nil {
		return "", fmt.Errorf("identify the new cluster: %w", client.DescribeServerError(j.Server, err))
	}
	return string(u.GetUID()), nil
}

// agent is what the agent that is installed in a namespace of the newcomer says of it,
// as far as that is there and may be read. uid is that of its namespace kube-system.
func (j joiningCluster) agent(ctx context.Context, namespace, uid string) registration.Installed {
	var config *corev1.ConfigMap
	if u, err := j.API.Get(ctx, client.ConfigMaps, namespace, fleet.ConfigMapAgent); err == nil {
		config, _ = client.Convert[corev1.ConfigMap](u)
	}
	var secret *corev1.Secret
	if u, err := j.API.Get(ctx, client.Secrets, namespace, fleet.SecretAgent); err == nil {
		secret, _ = client.Convert[corev1.Secret](u)
	}
	return registration.ReadInstalled(config, secret, uid)
}

// checkUnjoined refuses a newcomer whose agent checks in as another Cluster: of this
// workspace, or of the one that the agent has registered in.
func checkUnjoined(ctx context.Context, s *client.Session, name string, there registration.Installed) error {
	clusters, err := clustersHere(ctx, s)
	if err != nil {
		return err
	}
	if k := there.Cluster; k.Name != "" && k.Namespace != s.Scope {
		if u, err := s.API.Get(ctx, cli.MustKind("clusters").Resource(), k.Namespace, k.Name); err == nil {
			c, err := client.Convert[fleet.Cluster](u)
			if err != nil {
				return err
			}
			clusters = append(clusters, c)
		}
	}
	c := there.JoinedAs(clusters, view.Key{Namespace: s.Scope, Name: name})
	if c == nil {
		return nil
	}
	return fmt.Errorf("%w: that cluster is %s/%s already (clientID %s); to let it in as %s, first: fleet cluster forget -n %[2]s %[3]s",
		cli.ErrRefused, c.Namespace, c.Name, c.Spec.ClientID, name)
}

// ensureCluster makes the Cluster that an agent with an id is to become, or finds it. It
// returns the time of that Cluster's last check-in, and the client ID to use.
func ensureCluster(ctx context.Context, s *client.Session, o JoinOptions, id string) (before time.Time, clientID string, err error) {
	clusters, err := clustersHere(ctx, s)
	if err != nil {
		return before, "", err
	}
	for _, c := range clusters {
		switch {
		case c.Name != o.Name:
		case len(o.Labels) > 0:
			return before, "", fmt.Errorf("%w: cluster %s/%s is there already and keeps its labels: leave --label out, or kubectl label it", cli.ErrRefused, s.Scope, c.Name)
		case c.Spec.ClientID == "":
			fields := map[string]any{"spec": map[string]any{"clientID": id}}
			return c.Status.Agent.LastSeen.Time, id, s.Merge(ctx, cli.MustKind("clusters"), c.Name, fields)
		default:
			s.Std.Note("cluster %s is there already: its agent comes back to it", c.Name)
			return c.Status.Agent.LastSeen.Time, c.Spec.ClientID, nil
		}
	}
	return before, id, newCluster(ctx, s, o, id)
}

func clustersHere(ctx context.Context, s *client.Session) ([]*fleet.Cluster, error) {
	items, err := s.ListAll(ctx, client.Query{Resource: cli.MustKind("clusters").Resource(), Namespace: s.Scope})
	if err != nil {
		return nil, err
	}
	return client.AllAs[fleet.Cluster](items)
}

func newCluster(ctx context.Context, s *client.Session, o JoinOptions, id string) error {
	c := &fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Scope, Name: o.Name, Labels: o.Labels},
		Spec:       fleet.ClusterSpec{ClientID: id},
	}
	u, err := Loose(c)
	if err != nil {
		return err
	}
	if _, err := s.API.Create(ctx, cli.MustKind("clusters").Resource(), u); err != nil {
		return uncreated(s, fmt.Sprintf("make cluster %q", o.Name), err)
	}
	text := "without labels"
	if len(o.Labels) > 0 {
		text = labels.Set(o.Labels).String()
	}
	s.Std.Note("cluster %s/%s made, %s", s.Scope, o.Name, text)
	return nil
}

// errAway says that an agent did not come in time.
var errAway = errors.New("the agent has not checked in")

// awaitCheckIn waits until an agent has checked in as the Cluster, later than before.
func (o JoinOptions) awaitCheckIn(ctx context.Context, s *client.Session, before time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, errAway)
	defer cancel()
	for {
		u, err := s.API.Get(ctx, cli.MustKind("clusters").Resource(), s.Scope, o.Name)
		if err != nil && ctx.Err() == nil {
			return client.DescribeServerError(s.Server, err)
		}
		if err == nil {
			c, err := client.Convert[fleet.Cluster](u)
			if err != nil {
				return err
			}
			if a := c.Status.Agent; a.LastSeen.After(before) {
				printer.Fprintf(s.Std.Out, "cluster %s/%s has joined: agent %s, Kubernetes %s\n", s.Scope, o.Name, cmp.Or(a.Version, "unknown"), cmp.Or(a.Kubernetes, "unknown"))
				return nil
			}
		}
		if kube.Sleep(ctx, client.TokenPoll) == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), errAway) {
			return fmt.Errorf("%w: %w within %s; what it says: %s -n %s logs deployment/fleet-agent; what the manager says: fleet events -n %s cluster/%s",
				cli.ErrNotReady, errAway, view.Age(o.Timeout), o.kubectl(), s.System, s.Scope, o.Name)
		}
		return context.Cause(ctx)
	}
}

// kubectl is the command that reaches the new cluster.
func (o JoinOptions) kubectl() string {
	words := []string{"kubectl"}
	if o.File != "" {
		words = append(words, "--kubeconfig", o.File)
	}
	if o.Context != "" {
		words = append(words, "--context", o.Context)
	}
	return strings.Join(client.Quoted(words), " ")
}

// endToken deletes a token that has done what it was made for.
func endToken(ctx context.Context, s *client.Session, t *fleet.ClusterRegistrationToken) error {
	err := s.API.Delete(ctx, cli.MustKind("tokens").Resource(), t.Namespace, t.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("end registration token %q: %w", t.Name, client.DescribeServerError(s.Server, err))
	}
	s.Std.Note("token %s is ended", t.Name)
	return nil
}
