// Package local makes the manager's own cluster a Cluster of the fleet and keeps its
// agent installed. It also moves that agent to another namespace.
package local

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identifier"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// localResync is how often the local agent is looked at without a wake-up: its
// Deployment is not watched.
const localResync = 10 * time.Minute

// Config configures the loop.
type Config struct {
	System   registration.System
	Settings registration.Settings
	Agents   agents
	Now      func() time.Time // the clock
	// Connect connects to the manager's own cluster with the rights of a token. Default: over
	// the network, under the names of the client.
	Connect func(kube.Access) (*kube.Client, error)
}

// agents answers this loop's questions about the agent of a Cluster.
type agents interface {
	// Suspended reports whether the whole fleet is suspended; OnSuspension calls f when
	// that may have changed.
	Suspended() bool
	OnSuspension(f func())
	// DesiredAgent is the agent that a Cluster is to have; OnBundle calls f for each change of the
	// Bundle of an agent.
	DesiredAgent(ctx context.Context, c *fleet.Cluster) (registration.Agent, error)
	OnBundle(f func(old, b *fleet.Bundle))
	// IsCurrent reports whether what is asked of the agent's own deployment is what its Cluster
	// says.
	IsCurrent(ctx context.Context, c *fleet.Cluster) (bool, error)
}

// A Loop makes the manager's own cluster a Cluster of the fleet and keeps its agent
// installed, through a kubeconfig of the chart's bootstrap account.
type Loop struct {
	cfg    Config
	log    *logrus.Entry
	caches *cache.Shared
	loop   *kube.Controller
	key    kube.Key
	client *kube.Client
	stores

	credential *cache.MetaCache // the agent's Secret fleet-agent
	bootstrap  *cache.MetaCache // the agent's Secret fleet-agent-bootstrap

	installer *installer // through the kubeconfig; nil until there is one
}

// stores are the kinds that the loop reads and writes.
type stores struct {
	clusters   *kube.Store[*fleet.Cluster]
	groups     *kube.Store[*fleet.ClusterGroup]
	repos      *kube.Store[*fleet.GitRepo]
	tokens     *kube.Store[*fleet.ClusterRegistrationToken]
	requests   *kube.Store[*fleet.ClusterRegistration]
	namespaces *kube.Store[*corev1.Namespace]
	accounts   *kube.Store[*corev1.ServiceAccount]
	secrets    *kube.Store[*corev1.Secret]
}

func newStores(c *kube.Client) stores {
	return stores{
		clusters: kube.StoreOf[*fleet.Cluster](c), groups: kube.StoreOf[*fleet.ClusterGroup](c),
		repos: kube.StoreOf[*fleet.GitRepo](c), tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](c),
		requests: kube.StoreOf[*fleet.ClusterRegistration](c), namespaces: kube.StoreOf[*corev1.Namespace](c),
		accounts: kube.StoreOf[*corev1.ServiceAccount](c), secrets: kube.StoreOf[*corev1.Secret](c),
	}
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, log *logrus.Entry) *Loop {
	if cfg.Connect == nil {
		cfg.Connect = func(a kube.Access) (*kube.Client, error) {
			return kube.Connect(kube.Config{REST: a.REST(), UserAgent: c.REST().UserAgent, FieldManager: c.FieldManager()})
		}
	}
	in := cfg.Settings.Bootstrap.AgentNamespace
	secret := func(name string) *cache.MetaCache {
		return kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"),
			kube.Watch{Namespace: in, Fields: "metadata.name=" + name}, cache.StripMeta)
	}
	l := &Loop{
		cfg: cfg, log: log, caches: caches, client: c, stores: newStores(c),
		key:        kube.Key{Namespace: cfg.Settings.Bootstrap.Namespace, Name: fleet.ClusterLocal},
		credential: secret(fleet.SecretAgent), bootstrap: secret(fleet.SecretAgentBootstrap),
	}
	l.loop = kube.NewController("local", 1, l.Reconcile)
	l.addHandlers()
	l.loop.Add(l.key)
	return l
}

// addHandlers makes changes of objects enqueue the loop.
func (l *Loop) addHandlers() {
	v := l.caches
	v.Clusters.OnChange(func(old, c *fleet.Cluster) {
		moved := old != nil && c != nil && old.Status.Agent.Namespace != c.Status.Agent.Namespace
		if (moved || cache.ClusterChanged(old, c)) && kube.KeyOf(cache.Either(old, c)) == l.key {
			l.loop.Add(l.key)
		}
	})
	v.Requests.OnChange(func(old, r *fleet.ClusterRegistration) {
		if cache.Either(old, r).Namespace == l.key.Namespace {
			l.loop.Add(l.key)
		}
	})
	v.Tokens.OnChange(func(old, t *fleet.ClusterRegistrationToken) {
		if cache.Either(old, t).Name == registration.LocalToken(l.cfg.Settings.Bootstrap).Name {
			l.loop.Add(l.key)
		}
	})
	v.AccountTokens.OnChange(func(old, s *cache.Meta) {
		if cache.Either(old, s).Namespace == l.cfg.System.Namespace {
			l.loop.Add(l.key)
		}
	})
	wake := func(_, _ *cache.Meta) { l.loop.Add(l.key) }
	l.credential.OnChange(wake)
	l.bootstrap.OnChange(wake)
	l.cfg.Agents.OnSuspension(func() { l.loop.Add(l.key) })
	l.cfg.Agents.OnBundle(func(old, b *fleet.Bundle) { // the agent may have got another image
		if cache.Either(old, b).Namespace == l.key.Namespace && cache.Either(old, b).Name == naming.AgentBundle(l.key.Name) {
			l.loop.Add(l.key)
		}
	})
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner {
	return []kube.Runner{l.credential, l.bootstrap, l.loop}
}

// Reconcile brings the objects of the manager's own cluster up to date: Cluster, group
// and GitRepo first, then the kubeconfig, then the agent, then its registration data.
// It reports the result in condition Imported of the Cluster.
func (l *Loop) Reconcile(ctx context.Context, _ kube.Key) (kube.Result, error) {
	c, err := l.workspace(ctx)
	if err != nil || c == nil || c.DeletionTimestamp != nil {
		return kube.Done, err
	}
	if l.cfg.Agents.Suspended() {
		return kube.Done, nil
	}
	ready, err := l.agent(ctx, c)
	if err == nil && !ready {
		return kube.Result{After: localResync}, nil
	}
	return kube.Result{After: localResync}, l.report(ctx, c, err)
}

// workspace creates the workspace with Cluster, group and GitRepo. It returns nil if it
// has just written the Cluster: the watch event enqueues the loop again.
func (l *Loop) workspace(ctx context.Context) (*fleet.Cluster, error) {
	b := l.cfg.Settings.Bootstrap
	have, ok := l.caches.Clusters.Get(l.key)
	if !ok {
		if err := ensure.Namespace(ctx, l.namespaces, b.Namespace, nil); err != nil {
			return nil, err
		}
		if _, err := l.clusters.Create(ctx, registration.LocalCluster(b, nil, identifier.New(16))); err != nil {
			return nil, err
		}
	}
	if _, err := l.groups.Get(ctx, kube.KeyOf(registration.LocalGroup(b))); kube.IsGone(err) {
		if _, err := l.groups.Create(ctx, registration.LocalGroup(b)); err != nil && !kube.IsExists(err) {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if err := l.repo(ctx, registration.LocalRepo(b)); err != nil || !ok {
		return nil, err
	}
	want := registration.LocalCluster(b, have, identifier.New(16))
	if _, err := l.clusters.Patch(ctx, have, want); err != nil || want.Spec.AgentNamespace != have.Spec.AgentNamespace {
		return nil, err
	}
	return have, nil
}

// repo creates the GitRepo of the settings. It keeps a GitRepo that the settings do not
// contain any more: users may rely on it.
func (l *Loop) repo(ctx context.Context, want *fleet.GitRepo) error {
	if want == nil {
		return nil
	}
	have, err := l.repos.Get(ctx, kube.KeyOf(want))
	if kube.IsGone(err) {
		_, err = l.repos.Create(ctx, want)
		return err
	}
	if err != nil {
		return err
	}
	changed := have.DeepCopy()
	changed.Spec.Repo, changed.Spec.Branch = want.Spec.Repo, want.Spec.Branch
	changed.Spec.ClientSecretName, changed.Spec.Paths = want.Spec.ClientSecretName, want.Spec.Paths
	_, err = l.repos.Patch(ctx, have, changed)
	return err
}

// agent installs the local agent, or removes it if it is disabled. It returns false
// while something else must happen first.
func (l *Loop) agent(ctx context.Context, c *fleet.Cluster) (bool, error) {
	if b := l.cfg.Settings.Bootstrap; !b.LocalAgentDisabled && b.AgentNamespace == l.cfg.System.Namespace {
		return false, reconcile.TerminalError(reasonForeignAgent, fmt.Errorf(
			"install the local agent: namespace %q is where another manager of this cluster puts its agent; leave the chart value bootstrap.agentNamespace empty", l.cfg.System.Namespace))
	}
	endpoint, token, err := l.endpointAndToken(ctx)
	if err != nil || len(token) == 0 {
		return false, err
	}
	if err := l.kubeconfig(ctx, endpoint, token); err != nil {
		return false, err
	}
	access := kube.Access{URL: endpoint.URL, CA: endpoint.CA, Token: string(token)}
	if l.installer == nil || l.installer.token != access.Token {
		own, err := l.cfg.Connect(access)
		if err != nil {
			return false, err
		}
		l.installer = newInstaller(own, access.Token)
	}
	agent, err := l.cfg.Agents.DesiredAgent(ctx, c)
	if err != nil {
		return false, err
	}
	if err := l.installOrRemove(ctx, c, agent, endpoint); err != nil {
		return false, err
	}
	return true, l.removeFormerAgents(ctx, c, agent, access)
}

// installOrRemove installs the agent in its namespace, or removes it if it is disabled.
// While the agent must first be removed from another namespace, it does nothing.
func (l *Loop) installOrRemove(ctx context.Context, c *fleet.Cluster, agent registration.Agent, e registration.Endpoint) error {
	b := l.cfg.Settings.Bootstrap
	switch {
	case b.LocalAgentDisabled:
		return l.installer.remove(ctx, agent)
	case agent.Namespace != b.AgentNamespace && len(registration.LocalMoveOf(c).Leaves) > 0:
		return nil
	}
	if err := l.installer.install(ctx, agent); err != nil {
		return err
	}
	if c.Spec.AgentPullSecrets == nil { // the Secrets that a Cluster names exist there
		if err := l.pullSecrets(ctx, agent); err != nil {
			return err
		}
	}
	return l.register(ctx, c, e)
}

// endpointAndToken returns the address of the manager's own API server, and the token
// of the chart's bootstrap account; the token is empty until the API server has filled
// it in.
func (l *Loop) endpointAndToken(ctx context.Context) (registration.Endpoint, []byte, error) {
	want := registration.BootstrapToken(l.cfg.System)
	have, err := l.secrets.Get(ctx, kube.KeyOf(want))
	if kube.IsGone(err) {
		account := kube.Key{Namespace: l.cfg.System.Namespace, Name: registration.AccountBootstrap}
		if _, err = l.accounts.Get(ctx, account); kube.IsGone(err) {
			return registration.Endpoint{}, nil, reconcile.TerminalError("NoBootstrapAccount",
				fmt.Errorf("install the local agent: %w (chart value bootstrap.enabled)", err))
		}
		if err == nil {
			have, err = l.secrets.Create(ctx, want)
		}
	}
	if err != nil {
		return registration.Endpoint{}, nil, err
	}
	rest := l.client.REST()
	e := registration.Endpoint{URL: rest.Host, CA: rest.CAData}
	if len(e.CA) == 0 {
		e.CA = have.Data[corev1.ServiceAccountRootCAKey]
	}
	return e, have.Data[corev1.ServiceAccountTokenKey], nil
}

// kubeconfig writes the Secret that the Cluster names.
func (l *Loop) kubeconfig(ctx context.Context, e registration.Endpoint, token []byte) error {
	text, err := kube.Access{URL: e.URL, CA: e.CA, Token: string(token)}.Kubeconfig()
	if err != nil {
		return err
	}
	return ensure.Secret(ctx, l.secrets, registration.LocalKubeconfig(l.cfg.Settings.Bootstrap, e, text))
}

// pullSecrets copies the image pull secrets of the settings to the agent.
func (l *Loop) pullSecrets(ctx context.Context, a registration.Agent) error {
	for _, name := range a.ImagePullSecrets {
		from, err := l.secrets.Get(ctx, kube.Key{Namespace: l.cfg.System.Namespace, Name: name})
		if err != nil {
			return fmt.Errorf("image pull secret of the local agent: %w", err)
		}
		err = ensure.Secret(ctx, l.secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name, Labels: maps.Clone(a.Labels)},
			Type:       from.Type, Data: from.Data,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// report writes the condition Imported.
func (l *Loop) report(ctx context.Context, c *fleet.Cluster, failed error) error {
	imported := fleet.Condition{
		Type: fleet.ConditionImported, Status: corev1.ConditionTrue,
	}
	if failed != nil {
		imported.Status, imported.Reason = corev1.ConditionFalse, reconcile.ReasonOf(failed)
		imported.Message = condition.Message(failed.Error())
	}
	// The Cluster may have been written since it was read.
	if now, ok := l.caches.Clusters.Get(l.key); ok {
		c = now
	}
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Set(c.Status.Conditions, imported, l.cfg.Now())
	if _, err := l.clusters.PatchStatus(ctx, c, changed); err != nil && failed == nil {
		return err
	}
	return failed
}
