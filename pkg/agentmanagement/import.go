package agentmanagement

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
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
	// unreachableLimit is how long one has to answer that has not, and how long any may
	// take for one request.
	unreachableLimit = 15 * time.Second
	// importLimit is how long an import may take.
	importLimit = time.Minute
	// Back-off of clusters that cannot be reached.
	unreachableFirst = 30 * time.Second
	unreachableLast  = 10 * time.Minute
)

// importLoop installs the agents of Clusters that name a kubeconfig, and updates the
// manager's address in these agents when that changes. Clusters that do not answer are
// tried again by workers of their own.
type importLoop struct {
	*Manager
	reachable, unreachable *kube.Controller
	turns                  *importWaves

	clusters *kube.Store[*fleet.Cluster]
	tokens   *kube.Store[*fleet.ClusterRegistrationToken]
	secrets  *kube.Store[*corev1.Secret]
	accounts *kube.Store[*corev1.ServiceAccount]
	client   *kube.Client

	known *cache.MetaCache  // Secrets that may hold kubeconfigs
	via   http.RoundTripper // carries what is asked of other clusters, in tests

	mu     sync.Mutex
	away   map[kube.Key]*absence // clusters that did not answer
	looked map[kube.Key]look     // what Secrets say that have changed since the import
	failed map[kube.Key]bool     // whose last import did not go through
	unseen map[kube.Key]string   // versions that were written and that the cache has not shown yet
}

// absence is a cluster whose API server did not answer.
type absence struct {
	delays kube.Backoff
	secret string    // version of the Secret that it was tried with
	until  time.Time // it is not tried again before
}

// bySecret is the index of Clusters by the Secret that they name.
const bySecret = "secret"

func newImportLoop(h *Manager, c *kube.Client) *importLoop {
	l := &importLoop{
		Manager: h, client: c,
		clusters: kube.StoreOf[*fleet.Cluster](c), tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](c),
		secrets: kube.StoreOf[*corev1.Secret](c), accounts: kube.StoreOf[*corev1.ServiceAccount](c),
		// As gitjob watches Secrets: neither Helm releases nor tokens nor what Fleet
		// itself keeps in Secrets, and of the others who they are.
		known: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"), kube.Watch{
			Labels: fleet.LabelManaged + "!=" + registration.True,
			Fields: "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token",
		}, stripSecret),
		away: map[kube.Key]*absence{}, looked: map[kube.Key]look{}, failed: map[kube.Key]bool{},
		unseen: map[kube.Key]string{},
	}
	l.reachable = kube.NewController("imports", reachableWorkers, kube.Within(h.cfg.Scope.Holds, l.reconcileReachable))
	l.unreachable = kube.NewController("imports-away", unreachableWorkers, kube.Within(h.cfg.Scope.Holds, l.reconcileUnreachable))
	l.turns = newImportTurns(l)
	h.view.Clusters.Index(bySecret, func(c *fleet.Cluster) []string {
		if c.Spec.KubeConfigSecret == "" {
			return nil
		}
		return []string{kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret}.String()}
	})
	l.wakeUps()
	return l
}

// stripSecret leaves the identity of a Secret.
func stripSecret(m *cache.Meta) {
	m.Labels, m.Annotations, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil
}

func (l *importLoop) parts() []kube.Runner {
	return []kube.Runner{l.known, l.reachable, l.unreachable, l.turns.loop}
}

// wakeUps registers what may change the next step.
func (l *importLoop) wakeUps() {
	v := l.view
	v.Clusters.OnChange(l.clusterChanged)
	l.known.OnChange(func(old, s *cache.Meta) {
		for _, c := range v.Clusters.ByIndex(bySecret, kube.KeyOf(cache.Either(old, s)).String()) {
			l.reachable.Add(kube.KeyOf(c))
		}
	})
	v.Tokens.OnChange(func(old, t *fleet.ClusterRegistrationToken) { l.wakeOwner(cache.Either(old, t)) })
	v.Values.OnChange(func(old, s *cache.Meta) {
		for _, ref := range cache.Either(old, s).OwnerReferences {
			if t, ok := v.Tokens.Get(kube.Key{Namespace: cache.Either(old, s).Namespace, Name: ref.Name}); ok {
				l.wakeOwner(t)
			}
		}
	})
	v.Requests.OnChange(func(old, r *fleet.ClusterRegistration) {
		if name := cache.Either(old, r).Status.ClusterName; name != "" {
			l.wakeCluster(kube.Key{Namespace: cache.Either(old, r).Namespace, Name: name})
		}
	})
	v.AccountTokens.OnChange(func(old, s *cache.Meta) { // one is in use
		for _, key := range cache.RequestOf(cache.Either(old, s)) {
			if r, ok := v.Requests.Get(kube.ParseKey(key)); ok {
				l.wakeCluster(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
			}
		}
	})
	l.wakeUpsByAgents()
}

// wakeUpsByAgents registers what may come from agents that run.
func (l *importLoop) wakeUpsByAgents() {
	l.agents.OnBundle(func(old, b *fleet.Bundle) { // an agent has deployed itself
		if old != nil && b != nil && old.Status.Summary.Ready != b.Status.Summary.Ready {
			l.wakeOf(b.Namespace, b.OwnerReferences)
		}
	})
	l.agents.OnBrake(func() {
		for _, c := range l.view.Clusters.List("") {
			l.wakeCluster(kube.KeyOf(c))
		}
	})
}

// clusterChanged enqueues what a change of a Cluster affects. The waves learn of a
// record only here: the import that wrote it had ended before the cache had the record.
func (l *importLoop) clusterChanged(old, c *fleet.Cluster) {
	if c == nil {
		l.forget(kube.KeyOf(old))
		l.turns.wake()
		return
	}
	l.seen(c)
	if c.Spec.KubeConfigSecret == "" {
		return
	}
	if cache.ClusterChanged(old, c) || importChanges(old, c) {
		l.reachable.Add(kube.KeyOf(c))
	}
	if turnChanges(old, c) {
		l.turns.wake()
	}
}

// turnChanges reports whether a change of a Cluster matters to clusterimport.Plan. A
// new Cluster does not: its own run enqueues the others.
func turnChanges(old, c *fleet.Cluster) bool {
	return old != nil && (old.Annotations[clusterimport.AnnotationImported] != c.Annotations[clusterimport.AnnotationImported] ||
		old.Labels[clusterimport.LabelCanary] != c.Labels[clusterimport.LabelCanary] ||
		old.Spec.Paused != c.Spec.Paused || online(old) != online(c))
}

// importChanges reports whether a change of a Cluster's status matters to imports.
func importChanges(old, c *fleet.Cluster) bool {
	return old == nil || old.Status.AgentConfigChanged != c.Status.AgentConfigChanged
}

// wakeOwner wakes the Cluster up that a token was made for.
func (l *importLoop) wakeOwner(t *fleet.ClusterRegistrationToken) {
	l.wakeOf(t.Namespace, t.OwnerReferences)
}

// wakeOf wakes the Cluster up that owns something.
func (l *importLoop) wakeOf(namespace string, owners []metav1.OwnerReference) {
	for _, ref := range owners {
		if ref.Kind == "Cluster" {
			l.wakeCluster(kube.Key{Namespace: namespace, Name: ref.Name})
		}
	}
}

// wakeCluster wakes a Cluster up whose agent the manager installs.
func (l *importLoop) wakeCluster(key kube.Key) {
	if c, ok := l.view.Clusters.Get(key); ok && l.concerns(c) {
		l.reachable.Add(key)
		l.turns.wake()
	}
}

// concerns reports whether the manager installs the agent of a Cluster through its
// kubeconfig. The agent of its own cluster has a loop of its own.
func (l *importLoop) concerns(c *fleet.Cluster) bool {
	local := kube.Key{Namespace: l.cfg.Settings.Bootstrap.Namespace, Name: fleet.ClusterLocal}
	return c.Spec.KubeConfigSecret != "" && c.DeletionTimestamp == nil && !registration.External(c) &&
		kube.KeyOf(c) != local && registration.OtherManager(c, l.cfg.Installation.Mark()) == ""
}

// reconcileReachable looks at a Cluster that answers, as far as is known.
func (l *importLoop) reconcileReachable(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.view.Clusters.Get(key)
	if !ok || !l.concerns(c) {
		l.forget(key)
		return kube.Done, nil
	}
	if l.isAway(c) {
		l.unreachable.Add(key) // the unreachable workers may have waited for this
		return kube.Done, nil
	}
	return l.reconcile(ctx, c, reachableLimit)
}

// reconcileUnreachable looks at a Cluster that did not answer.
func (l *importLoop) reconcileUnreachable(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.view.Clusters.Get(key)
	if !ok || !l.concerns(c) || !l.isAway(c) {
		return kube.Done, nil
	}
	if left := l.restOf(key); left > 0 {
		return kube.Result{After: left}, nil
	}
	return l.reconcile(ctx, c, unreachableLimit)
}

// restOf is for how long a Cluster that did not answer is left alone.
func (l *importLoop) restOf(key kube.Key) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.away[key]; a != nil {
		return a.until.Sub(l.now())
	}
	return 0
}

// reconcile brings the agent of one Cluster up to date.
//
//  1. gather: the Cluster, the last import, what its Secret says; all from
//     caches, as long as that has not changed; the Cluster itself before an import
//  2. decide: clusterimport.Due, and for what concerns many the turns of clusterimport.Plan
//  3. apply:  the registration token, then the agent, through the kubeconfig
//  4. report: the annotation of the import, condition Imported, status fields
func (l *importLoop) reconcile(ctx context.Context, c *fleet.Cluster, limit time.Duration) (kube.Result, error) {
	key := kube.KeyOf(c)
	if _, ok := registration.DeploymentNamespace(c); !ok || l.agents.Suspended() {
		return kube.Done, nil // its namespace, or the end of the brake, wakes it up
	}
	facts, err := l.latest(ctx, c)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return l.ended(ctx, c, err)
	}
	c = facts.Cluster
	need, reason := clusterimport.Due(facts)
	switch {
	case need == clusterimport.None:
		l.succeeded(key)
		return l.settle(ctx, facts)
	case need == clusterimport.InTurn && !l.turns.has(key, facts.Offer.Terms()):
		l.turns.wake()
		return kube.Done, nil
	}
	if need == clusterimport.Anew {
		err = l.remake(ctx, facts, limit)
	} else {
		err = l.importCluster(ctx, facts, limit)
	}
	if isUnreachable(err) && limit == reachableLimit {
		l.leave(c)
		return kube.Done, nil
	}
	if err != nil {
		return l.ended(ctx, c, err)
	}
	l.succeeded(key)
	l.turns.wake()
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", reason).Info("agent installed")
	l.events.Event(c, kube.Normal, "AgentInstalled", "the agent was installed through the kubeconfig: "+reason)
	return kube.Done, nil // the written Cluster wakes it up
}

// latest gathers what is known of a Cluster. The cache may not know yet of the last
// import: a Cluster that seems to need one is read itself.
func (l *importLoop) latest(ctx context.Context, c *fleet.Cluster) (clusterimport.Facts, error) {
	facts, err := l.facts(ctx, c)
	if err != nil {
		return facts, err
	}
	need, _ := clusterimport.Due(facts)
	if need == clusterimport.None || need == clusterimport.InTurn && !l.turns.has(kube.KeyOf(c), facts.Offer.Terms()) {
		return facts, nil
	}
	if c, err = l.clusters.Get(ctx, kube.KeyOf(c)); err != nil {
		return clusterimport.Facts{}, err
	}
	return l.facts(ctx, c)
}

// ended reports an import that did not go through.
func (l *importLoop) ended(ctx context.Context, c *fleet.Cluster, err error) (kube.Result, error) {
	key := kube.KeyOf(c)
	if kube.IsConflict(err) || reconcile.IsRequeue(err) && reconcile.ReasonOf(err) == fleet.ReasonProgressing {
		return kube.Done, err
	}
	l.mu.Lock()
	l.failed[key] = true
	l.mu.Unlock()
	l.turns.wake()
	if failed := l.report(ctx, c, err); failed != nil {
		return kube.Done, failed
	}
	if !isUnreachable(err) {
		return kube.Done, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.away[key]; a != nil {
		delay := a.delays.Next()
		a.until = l.now().Add(delay)
		return kube.Done, reconcile.RequeueError(clusterimport.ReasonUnreachable, delay, err)
	}
	return kube.Done, err // its Secret has just changed
}

// leave hands a Cluster that does not answer over to the far workers.
func (l *importLoop) leave(c *fleet.Cluster) {
	key := kube.KeyOf(c)
	l.mu.Lock()
	l.away[key] = &absence{delays: kube.Backoff{First: unreachableFirst, Last: unreachableLast}, secret: l.version(c)}
	l.failed[key] = true
	l.mu.Unlock()
	l.turns.wake()
	l.unreachable.Add(key)
}

// isAway reports whether a Cluster did not answer, through the Secret that it has
// now. A changed Secret is a new try.
func (l *importLoop) isAway(c *fleet.Cluster) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.away[kube.KeyOf(c)]
	if a == nil || a.secret == l.version(c) {
		return a != nil
	}
	delete(l.away, kube.KeyOf(c))
	return false
}

func (l *importLoop) succeeded(key kube.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.away, key)
	delete(l.failed, key)
}

func (l *importLoop) forget(key kube.Key) {
	l.succeeded(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.looked, key)
	delete(l.unseen, key)
}

// hasFailed reports whether the last import of a Cluster did not go through.
func (l *importLoop) hasFailed(key kube.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed[key]
}

// version is that of the Secret that a Cluster names, as far as the cache knows
// it; empty: there is none.
func (l *importLoop) version(c *fleet.Cluster) string {
	if s, ok := l.secretOf(c); ok {
		return clusterimport.VersionOf(s)
	}
	return ""
}

func (l *importLoop) secretOf(c *fleet.Cluster) (*cache.Meta, bool) {
	return l.known.Get(kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret})
}
