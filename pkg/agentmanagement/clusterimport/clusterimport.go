// Package clusterimport has the loops that install the agents of Clusters that name a
// kubeconfig, and that update the manager's address in these agents; the decisions are
// in pkg/plan/clusterimport.
package clusterimport

import (
	"context"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Workers and times of imports. Imports wait for other clusters most of the time, so
// they have many workers of their own.
const (
	reachableWorkers   = 128
	unreachableWorkers = 64
	// reachableLimit is how long a cluster has to answer that was not asked before, or
	// has answered. One that does not goes to the far workers, so that a hundred
	// of them hold a hundred and first one up for a few seconds at most.
	reachableLimit = 2 * time.Second
	// unreachableLimit is how long one has to answer that has not.
	unreachableLimit = 15 * time.Second
	// importLimit is how long an import may take.
	importLimit = time.Minute
	// Back-off of clusters that cannot be reached.
	unreachableFirst = 30 * time.Second
	unreachableLast  = 10 * time.Minute
)

// Config configures the loop.
type Config struct {
	System       registration.System
	Installation registration.Installation
	Settings     registration.Settings
	Scope        scope.Scope
	Addresses    address.Policy // of imported clusters
	Agents       agents
	Moves        moves
	Rancher      rancher.Reader
	Used         func(*fleet.ClusterRegistration) bool // whether the token that a request was granted is in use
	Via          http.RoundTripper                     // sends requests to other clusters; nil: over the network
	Now          func() time.Time                      // the clock
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
	// DesiredDigest is a digest of what a Cluster asks of its agent, and Deployed reports whether the
	// agent has deployed that itself.
	DesiredDigest(c *fleet.Cluster) string
	Deployed(ctx context.Context, c *fleet.Cluster, own string) (bool, error)
}

// moves answers this loop's questions about Clusters that come from another
// workspace.
type moves interface {
	// Former are the Clusters whose place one takes; rancher.ErrUnseen where that is not
	// known.
	Former(ctx context.Context, c *fleet.Cluster) ([]*fleet.Cluster, error)
	// CarryOver gives a Cluster what users had set on the one whose place it takes.
	CarryOver(ctx context.Context, c, before *fleet.Cluster) error
}

// A Loop installs the agents of Clusters that name a kubeconfig, and updates the manager's
// address in these agents when that changes. Clusters that do not answer are tried again
// by workers of their own.
type Loop struct {
	cfg    Config
	log    *logrus.Entry
	caches *cache.Shared
	events *kube.Recorder
	client *kube.Client

	reachable, unreachable *kube.Controller
	waves                  *waves

	clusters *kube.Store[*fleet.Cluster]
	accounts *kube.Store[*corev1.ServiceAccount]

	kubeconfigs *kubeconfigs
	tokens      *tokens
	failures    *failures
	reporter    *reporter
}

// bySecret is the index of Clusters by the Secret that they name.
const bySecret = "secret"

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	clusters, secrets := kube.StoreOf[*fleet.Cluster](c), kube.StoreOf[*corev1.Secret](c)
	l := &Loop{
		cfg: cfg, log: log, caches: caches, events: events, client: c,
		clusters: clusters, accounts: kube.StoreOf[*corev1.ServiceAccount](c),
		kubeconfigs: newKubeconfigs(cfg.Settings, cfg.Rancher, c),
		tokens: &tokens{
			now: cfg.Now, used: cfg.Used, caches: caches, tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](c), secrets: secrets,
		},
		failures: &failures{now: cfg.Now, away: map[kube.Key]*absence{}, failed: map[kube.Key]bool{}},
		reporter: &reporter{now: cfg.Now, caches: caches, events: events, clusters: clusters, unseen: map[kube.Key]string{}},
	}
	l.reachable = kube.NewController("imports", reachableWorkers, kube.Within(cfg.Scope.Holds, l.reconcileReachable))
	l.unreachable = kube.NewController("imports-away", unreachableWorkers, kube.Within(cfg.Scope.Holds, l.reconcileUnreachable))
	l.waves = newWaves(cfg, caches, events, log, l)
	caches.Clusters.Index(bySecret, func(c *fleet.Cluster) []string {
		if c.Spec.KubeConfigSecret == "" {
			return nil
		}
		return []string{kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret}.String()}
	})
	l.addHandlers()
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner {
	return []kube.Runner{l.kubeconfigs.known, l.reachable, l.unreachable, l.waves.loop}
}

// addHandlers makes changes of objects enqueue the Clusters that they affect.
func (l *Loop) addHandlers() {
	v := l.caches
	v.Clusters.OnChange(l.onCluster)
	l.kubeconfigs.known.OnChange(func(old, s *cache.Meta) {
		for _, c := range v.Clusters.ByIndex(bySecret, kube.KeyOf(cache.Either(old, s)).String()) {
			l.reachable.Add(kube.KeyOf(c))
		}
	})
	v.Tokens.OnChange(func(old, t *fleet.ClusterRegistrationToken) { l.enqueueTokenOwner(cache.Either(old, t)) })
	v.Values.OnChange(func(old, s *cache.Meta) {
		for _, ref := range cache.Either(old, s).OwnerReferences {
			if t, ok := v.Tokens.Get(kube.Key{Namespace: cache.Either(old, s).Namespace, Name: ref.Name}); ok {
				l.enqueueTokenOwner(t)
			}
		}
	})
	v.Requests.OnChange(func(old, r *fleet.ClusterRegistration) {
		if name := cache.Either(old, r).Status.ClusterName; name != "" {
			l.enqueueCluster(kube.Key{Namespace: cache.Either(old, r).Namespace, Name: name})
		}
	})
	v.AccountTokens.OnChange(func(old, s *cache.Meta) { // one is in use
		for _, key := range cache.RequestOf(cache.Either(old, s)) {
			if r, ok := v.Requests.Get(kube.ParseKey(key)); ok {
				l.enqueueCluster(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
			}
		}
	})
	l.addAgentHandlers()
}

// addAgentHandlers makes changes by running agents enqueue their Clusters.
func (l *Loop) addAgentHandlers() {
	l.cfg.Agents.OnBundle(func(old, b *fleet.Bundle) { // an agent has deployed itself
		if old != nil && b != nil && old.Status.Summary.Ready != b.Status.Summary.Ready {
			l.enqueueOwner(b.Namespace, b.OwnerReferences)
		}
	})
	l.cfg.Agents.OnSuspension(func() {
		for _, c := range l.caches.Clusters.List("") {
			l.enqueueCluster(kube.KeyOf(c))
		}
	})
}

// onCluster enqueues what a change of a Cluster affects. It also enqueues the waves
// after a change of a record: the import that wrote the record has ended before the
// cache has it.
func (l *Loop) onCluster(old, c *fleet.Cluster) {
	if c == nil {
		l.forget(kube.KeyOf(old))
		l.waves.enqueue()
		return
	}
	l.reporter.onCached(c)
	if c.Spec.KubeConfigSecret == "" {
		return
	}
	if cache.ClusterChanged(old, c) || importChanges(old, c) {
		l.reachable.Add(kube.KeyOf(c))
	}
	if waveChanges(old, c) {
		l.waves.enqueue()
	}
}

// waveChanges reports whether a change of a Cluster matters to clusterimport.Plan. A
// new Cluster does not: its own reconciliation enqueues the others.
func waveChanges(old, c *fleet.Cluster) bool {
	return old != nil && (old.Annotations[clusterimport.AnnotationImported] != c.Annotations[clusterimport.AnnotationImported] ||
		old.Labels[clusterimport.LabelCanary] != c.Labels[clusterimport.LabelCanary] ||
		old.Spec.Paused != c.Spec.Paused || online(old) != online(c))
}

// importChanges reports whether a change of a Cluster's status matters to imports.
func importChanges(old, c *fleet.Cluster) bool {
	return old == nil || old.Status.AgentConfigChanged != c.Status.AgentConfigChanged
}

// enqueueTokenOwner enqueues the Cluster that a token was made for.
func (l *Loop) enqueueTokenOwner(t *fleet.ClusterRegistrationToken) {
	l.enqueueOwner(t.Namespace, t.OwnerReferences)
}

// enqueueOwner enqueues the Cluster among the owners of an object.
func (l *Loop) enqueueOwner(namespace string, owners []metav1.OwnerReference) {
	for _, ref := range owners {
		if ref.Kind == "Cluster" {
			l.enqueueCluster(kube.Key{Namespace: namespace, Name: ref.Name})
		}
	}
}

// enqueueCluster enqueues a Cluster if the manager installs its agent.
func (l *Loop) enqueueCluster(key kube.Key) {
	if c, ok := l.caches.Clusters.Get(key); ok && l.installsAgentOf(c) {
		l.reachable.Add(key)
		l.waves.enqueue()
	}
}

// installsAgentOf reports whether this loop installs the agent of a Cluster, by its
// kubeconfig. Package local installs the agent in the manager's own cluster.
func (l *Loop) installsAgentOf(c *fleet.Cluster) bool {
	local := kube.Key{Namespace: l.cfg.Settings.Bootstrap.Namespace, Name: fleet.ClusterLocal}
	return c.Spec.KubeConfigSecret != "" && c.DeletionTimestamp == nil && !registration.External(c) &&
		kube.KeyOf(c) != local && registration.OtherManager(c, l.cfg.Installation.Mark()) == ""
}

// reconcileReachable reconciles a Cluster that has answered so far.
func (l *Loop) reconcileReachable(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(key)
	if !ok || !l.installsAgentOf(c) {
		l.forget(key)
		return kube.Done, nil
	}
	if l.isUnreachable(c) {
		l.unreachable.Add(key) // reconcileUnreachable may have waited for this change
		return kube.Done, nil
	}
	return l.reconcile(ctx, c, reachableLimit)
}

// reconcileUnreachable reconciles a Cluster that did not answer.
func (l *Loop) reconcileUnreachable(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(key)
	if !ok || !l.installsAgentOf(c) || !l.isUnreachable(c) {
		return kube.Done, nil
	}
	if left := l.failures.remaining(key); left > 0 {
		return kube.Result{After: left}, nil
	}
	return l.reconcile(ctx, c, unreachableLimit)
}

// reconcile brings the agent of one Cluster up to date.
//
//  1. gather: the Cluster, the last import, what its Secret says; all from
//     caches, as long as that has not changed; the Cluster itself before an import
//  2. decide: clusterimport.Due, and for what concerns many the waves of clusterimport.Plan
//  3. apply:  the registration token, then the agent, through the kubeconfig
//  4. report: the annotation of the import, condition Imported, status fields
func (l *Loop) reconcile(ctx context.Context, c *fleet.Cluster, limit time.Duration) (kube.Result, error) {
	key := kube.KeyOf(c)
	if _, ok := registration.DeploymentNamespace(c); !ok || l.cfg.Agents.Suspended() {
		return kube.Done, nil // an event of its namespace, or the end of the suspension, enqueues it
	}
	facts, err := l.currentFacts(ctx, c)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return l.reportFailed(ctx, c, err)
	}
	c = facts.Cluster
	need, reason := clusterimport.Due(facts)
	switch {
	case need == clusterimport.None:
		l.failures.setSucceeded(key)
		return l.reportDone(ctx, facts)
	case need == clusterimport.InTurn && !l.waves.isNext(key, facts.Offer.Terms()):
		l.waves.enqueue()
		return kube.Done, nil
	}
	if need == clusterimport.Recreate {
		err = l.reapplyAgent(ctx, facts, limit)
	} else {
		err = l.importCluster(ctx, facts, limit)
	}
	if downstream.IsUnreachable(err) && limit == reachableLimit {
		l.moveToUnreachable(c)
		return kube.Done, nil
	}
	if err != nil {
		return l.reportFailed(ctx, c, err)
	}
	l.failures.setSucceeded(key)
	l.waves.enqueue()
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", reason).Info("agent installed")
	l.events.Event(c, kube.Normal, "AgentInstalled", "the agent was installed through the kubeconfig: "+reason)
	return kube.Done, nil // the watch event of the Cluster enqueues it
}

// currentFacts gathers the facts about a Cluster. If the Cluster seems to need an
// import, it reads the Cluster from the API server: the cache may not have the last
// import yet.
func (l *Loop) currentFacts(ctx context.Context, c *fleet.Cluster) (clusterimport.Facts, error) {
	facts, err := l.facts(ctx, c)
	if err != nil {
		return facts, err
	}
	need, _ := clusterimport.Due(facts)
	if need == clusterimport.None || need == clusterimport.InTurn && !l.waves.isNext(kube.KeyOf(c), facts.Offer.Terms()) {
		return facts, nil
	}
	if c, err = l.clusters.Get(ctx, kube.KeyOf(c)); err != nil {
		return clusterimport.Facts{}, err
	}
	return l.facts(ctx, c)
}

// reportFailed reports an import that failed.
func (l *Loop) reportFailed(ctx context.Context, c *fleet.Cluster, err error) (kube.Result, error) {
	key := kube.KeyOf(c)
	if kube.IsConflict(err) || reconcile.IsRequeue(err) && reconcile.ReasonOf(err) == fleet.ReasonProgressing {
		return kube.Done, err
	}
	l.failures.setFailed(key)
	l.waves.enqueue()
	if failed := l.reporter.report(ctx, c, err); failed != nil {
		return kube.Done, failed
	}
	if !downstream.IsUnreachable(err) {
		return kube.Done, err
	}
	if delay := l.failures.postpone(key); delay > 0 {
		return kube.Done, reconcile.RequeueError(clusterimport.ReasonUnreachable, delay, err)
	}
	return kube.Done, err // its Secret has just changed
}

// moveToUnreachable makes the workers for unreachable clusters try a Cluster that did
// not answer.
func (l *Loop) moveToUnreachable(c *fleet.Cluster) {
	key := kube.KeyOf(c)
	l.failures.add(key, l.kubeconfigs.version(c))
	l.waves.enqueue()
	l.unreachable.Add(key)
}

// isUnreachable reports whether a Cluster did not answer with its present Secret.
func (l *Loop) isUnreachable(c *fleet.Cluster) bool {
	return l.failures.has(kube.KeyOf(c), l.kubeconfigs.version(c))
}

// hasFailed reports whether the last import of a Cluster failed.
func (l *Loop) hasFailed(key kube.Key) bool { return l.failures.hasFailed(key) }

// enqueue enqueues a Cluster that has answered so far.
func (l *Loop) enqueue(key kube.Key) { l.reachable.Add(key) }

func (l *Loop) forget(key kube.Key) {
	l.failures.setSucceeded(key)
	l.kubeconfigs.forget(key)
	l.reporter.forget(key)
}
