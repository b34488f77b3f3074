// Package agents has the loop that keeps the Bundle of every cluster's agent, in waves;
// the decisions are in pkg/plan/agentrollout. It also returns which agent a Cluster
// should have.
package agents

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Changes of clusters are collected for a moment before they are handled, which is
// longer the more clusters there are, so that looking at all of them takes a small part
// of the time.
const (
	gatherChanges    = 200 * time.Millisecond
	gatherPerCluster = 100 * time.Microsecond
)

// lookSoon is when what was in doubt is looked at again, and lookAgain when it is looked
// whether the name of a Bundle is still taken.
const (
	lookSoon  = time.Second
	lookAgain = time.Minute
)

// deploymentName is the manager's own Deployment, whose tolerations the agent of
// its own cluster inherits.
const deploymentName = "fleet-controller"

// Config configures the loop.
type Config struct {
	System       registration.System
	Installation registration.Installation
	Settings     registration.Settings
	Scope        scope.Scope
	Now          func() time.Time // the clock
}

// A Loop keeps the Bundle of every cluster's agent, in waves. Its only key is the whole
// fleet: the decision about one agent depends on the state of the others.
type Loop struct {
	cfg    Config
	log    *logrus.Entry
	caches *cache.Shared
	events *kube.Recorder
	loop   *kube.Controller

	bundles     *kube.Store[*fleet.Bundle]
	clusters    *kube.Store[*fleet.Cluster]
	pairs       *kube.Store[*fleet.BundleDeployment]
	configs     *kube.Store[*corev1.ConfigMap]
	deployments *kube.Store[*appsv1.Deployment]

	known      *kube.Cache[*fleet.Bundle]     // of agents
	reported   *kube.Cache[*corev1.ConfigMap] // orders of users, and the last state that was written
	suspension *kube.Cache[*corev1.ConfigMap]

	refused map[kube.Key]string // clusters whose Bundle's name is taken, of one worker
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	one := func(name string) *kube.Cache[*corev1.ConfigMap] {
		return kube.NewCache[*corev1.ConfigMap](c, kube.Watch{Namespace: cfg.System.Namespace, Fields: "metadata.name=" + name}, nil)
	}
	l := &Loop{
		cfg: cfg, log: log, caches: caches, events: events,
		bundles: kube.StoreOf[*fleet.Bundle](c), clusters: kube.StoreOf[*fleet.Cluster](c), pairs: kube.StoreOf[*fleet.BundleDeployment](c),
		configs: kube.StoreOf[*corev1.ConfigMap](c), deployments: kube.StoreOf[*appsv1.Deployment](c),
		known:    kube.NewCache(c, kube.Watch{Labels: agentrollout.LabelBundle + "=" + registration.True}, stripAgentBundle),
		reported: one(agentrollout.ConfigMapName), suspension: one(fleet.ConfigMapBrake),
		refused: map[kube.Key]string{},
	}
	l.loop = kube.NewController("agents", 1, l.Reconcile)
	caches.Clusters.OnChange(func(old, c *fleet.Cluster) {
		if agentChanges(old, c) {
			l.enqueue()
		}
	})
	l.known.OnChange(func(_, _ *fleet.Bundle) { l.enqueue() })
	l.reported.OnChange(func(_, _ *corev1.ConfigMap) { l.enqueue() })
	l.suspension.OnChange(func(_, _ *corev1.ConfigMap) { l.enqueue() })
	l.loop.Add(l.key())
	return l
}

// key returns the only key of the loop: the ConfigMap with the state of all agents.
func (l *Loop) key() kube.Key {
	return kube.Key{Namespace: l.cfg.System.Namespace, Name: agentrollout.ConfigMapName}
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner {
	return []kube.Runner{l.known, l.reported, l.suspension, l.loop}
}

// enqueue enqueues the loop's only key.
func (l *Loop) enqueue() {
	l.loop.AddAfter(l.key(), gatherChanges+time.Duration(len(l.caches.Clusters.List("")))*gatherPerCluster)
}

// Reconcile brings the agents of the fleet one step further.
//
//  1. gather: Clusters and the Bundles of their agents from the caches
//  2. decide: agentrollout.Decide (pure)
//  3. apply:  Bundles that get a Build, and moves that have gone well
//  4. report: the state of all in ConfigMap fleet-agents, and condition
//     Reconciled of each Cluster
func (l *Loop) Reconcile(ctx context.Context, _ kube.Key) (kube.Result, error) {
	if l.cfg.Settings.AgentsUnmanaged {
		return kube.Done, nil
	}
	m, err := l.manager(ctx)
	if err != nil {
		return kube.Done, err
	}
	target, err := m.Build()
	if err != nil {
		return kube.Done, err
	}
	seen, err := l.gather(ctx, m)
	if err != nil {
		return kube.Done, err
	}
	plan := agentrollout.Decide(seen.members, target, l.userOrder(), l.cfg.Now())
	if !l.Suspended() {
		if err := l.apply(ctx, m, seen.clusters, plan); err != nil {
			return kube.Done, err
		}
	}
	if err := l.writeState(ctx, plan.State); err != nil {
		return kube.Done, err
	}
	next := kube.Result{After: plan.After}
	if seen.refusals {
		next = next.Sooner(lookAgain)
	}
	if seen.doubt {
		next.After = lookSoon
	}
	return next, l.reportConditions(ctx, m, seen.clusters)
}

// manager returns the settings that apply to all agents.
func (l *Loop) manager(ctx context.Context) (agentrollout.Manager, error) {
	m := agentrollout.Manager{Settings: l.cfg.Settings, System: l.cfg.System}
	if l.cfg.Settings.Bootstrap.Namespace == "" {
		return m, nil
	}
	d, err := l.deployments.Get(ctx, kube.Key{Namespace: l.cfg.System.Namespace, Name: deploymentName})
	if kube.IsGone(err) {
		return m, nil
	}
	if err == nil {
		m.Tolerations = d.Spec.Template.Spec.Tolerations
	}
	return m, err
}

// An agentFleet is the Clusters of a fleet by the keys of their members.
type agentFleet map[string]*fleet.Cluster

// sight is the state of the fleet at one moment.
type sight struct {
	clusters agentFleet
	members  []agentrollout.Member
	doubt    bool // the state may be about to change
	refusals bool // the name of a Bundle is taken, and no watch reports when it is free
}

// gather returns the clusters and Bundles of the fleet, from the caches.
func (l *Loop) gather(ctx context.Context, m agentrollout.Manager) (sight, error) {
	seen := sight{clusters: agentFleet{}}
	for _, c := range l.caches.Clusters.List("") {
		if !l.cfg.Scope.Holds(c.Namespace) || !m.Manages(c) || registration.OtherManager(c, l.cfg.Installation.Mark()) != "" {
			continue
		}
		b, _ := l.known.Get(bundleOf(c))
		member := m.Observe(c, b)
		if b == nil {
			why, err := l.refusalReason(ctx, c)
			if err != nil {
				return sight{}, err
			}
			if why != "" {
				member.Held, seen.refusals = why, true
			}
		}
		if member.NeedsDeploymentCheck() {
			var err error
			if member.Applied, err = l.isDeployed(ctx, c, b); err != nil {
				return sight{}, err
			}
			seen.doubt = seen.doubt || !member.Applied
		}
		seen.clusters[member.Key] = c
		seen.members = append(seen.members, member)
	}
	return seen, nil
}

// refusalReason returns why the agent of a Cluster gets no Bundle: a user's Bundle has
// its name. It is empty if the name is free. The condition of the Cluster stores the
// reason for other processes.
func (l *Loop) refusalReason(ctx context.Context, c *fleet.Cluster) (string, error) {
	key := kube.KeyOf(c)
	says := condition.Find(c.Status.Conditions, fleet.ConditionReconciled)
	if l.refused[key] == "" && (says == nil || says.Reason != agentrollout.ReasonTaken) {
		return "", nil
	}
	delete(l.refused, key)
	have, err := l.bundles.Get(ctx, bundleOf(c))
	if err != nil {
		return "", kube.IgnoreGone(err)
	}
	if why := agentrollout.ForeignReason(have); why != "" {
		l.refused[key] = why
	}
	return l.refused[key], nil
}

// isDeployed reports whether the BundleDeployment of an agent is deployed.
func (l *Loop) isDeployed(ctx context.Context, c *fleet.Cluster, b *fleet.Bundle) (bool, error) {
	namespace, ok := registration.DeploymentNamespace(c)
	if !ok {
		return false, nil
	}
	bd, err := l.pairs.Get(ctx, kube.Key{Namespace: namespace, Name: b.Name})
	if err != nil {
		return false, kube.IgnoreGone(err)
	}
	return agentrollout.IsDeployed(b, bd), nil
}

// userOrder returns a user's order about the rollout of agents.
func (l *Loop) userOrder() agentrollout.Order {
	m, ok := l.reported.Get(l.key())
	if !ok {
		return agentrollout.Order{}
	}
	return agentrollout.ParseOrder(m.Data[agentrollout.KeyOrder])
}

// apply carries out a plan.
func (l *Loop) apply(ctx context.Context, m agentrollout.Manager, clusters agentFleet, plan agentrollout.Plan) error {
	for _, key := range plan.Settle {
		have, ok := l.known.Get(bundleOf(clusters[key]))
		if !ok {
			continue
		}
		move := agentrollout.ParseMove(have.Annotations[agentrollout.AnnotationMove])
		move.Settled = true
		changed := have.DeepCopy()
		changed.Annotations[agentrollout.AnnotationMove] = move.String()
		if _, err := l.bundles.Patch(ctx, have, changed); err != nil {
			return err
		}
	}
	var failed error
	for _, s := range plan.Steps {
		if err := l.writeBundle(ctx, m, clusters[s.Key], s); err != nil {
			failed = fmt.Errorf("agent of cluster %q: %w", s.Key, err) // the others go on
		}
	}
	return failed
}

// writeBundle writes the Bundle of one agent.
func (l *Loop) writeBundle(ctx context.Context, m agentrollout.Manager, c *fleet.Cluster, s agentrollout.Step) error {
	want, err := m.Bundle(c, s.Build)
	if err != nil {
		return err
	}
	if s.Move != nil {
		want.Annotations[agentrollout.AnnotationMove] = s.Move.String()
	}
	have, err := l.bundles.Get(ctx, kube.KeyOf(want))
	switch {
	case kube.IsGone(err):
		_, err = l.bundles.Create(ctx, want)
	case err == nil && agentrollout.ForeignReason(have) != "":
		l.refused[kube.KeyOf(c)] = agentrollout.ForeignReason(have)
		return nil
	case err == nil:
		_, err = l.bundles.Patch(ctx, have, withContentOf(have, want))
	}
	if err != nil {
		return err
	}
	delete(l.refused, kube.KeyOf(c))
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("agent", s.Build.Image).
		WithField("reason", s.Reason).Info("agent bundle written")
	return nil
}

// withContentOf returns an existing Bundle with the content of the desired one. It
// stays paused if a user has paused it.
func withContentOf(have, want *fleet.Bundle) *fleet.Bundle {
	out := have.DeepCopy()
	out.Labels, out.Annotations = ensure.Merged(have.Labels, want.Labels), ensure.Merged(have.Annotations, want.Annotations)
	out.OwnerReferences = want.OwnerReferences
	out.Spec = want.Spec
	out.Spec.Paused = have.Spec.Paused
	return out
}

// writeState writes the state of all agents to a ConfigMap, for users.
func (l *Loop) writeState(ctx context.Context, s agentrollout.State) error {
	have, ok := l.reported.Get(l.key())
	if !ok {
		_, err := l.configs.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.key().Namespace, Name: l.key().Name},
			Data:       map[string]string{agentrollout.KeyState: s.String()},
		})
		if kube.IsExists(err) {
			return nil // the cache will report it
		}
		return err
	}
	was, _ := agentrollout.ParseState(have.Data[agentrollout.KeyState])
	changed := have.DeepCopy()
	changed.Data = ensure.Merged(have.Data, map[string]string{agentrollout.KeyState: s.String()})
	if _, err := l.configs.Patch(ctx, have, changed); err != nil {
		return err
	}
	if was.Phase != s.Phase {
		l.log.WithField("agent", s.Image).WithField("reason", s.Message).Info("agents: " + string(s.Phase))
	}
	for _, f := range s.Failed {
		if slices.Contains(was.Failed, f) {
			continue
		}
		if c, ok := l.caches.Clusters.Get(kube.ParseKey(f.Cluster)); ok {
			l.events.Event(c, kube.Warning, "AgentUpdateFailed", "since the agent was updated to "+s.Image+": "+f.Reason)
		}
	}
	return nil
}

// reportConditions writes condition Reconciled of each Cluster for which it has
// changed.
func (l *Loop) reportConditions(ctx context.Context, m agentrollout.Manager, clusters agentFleet) error {
	var failed error
	for _, c := range clusters {
		out := c.DeepCopy()
		reason, why := m.HoldReason(c)
		b, ok := l.known.Get(bundleOf(c))
		switch taken := l.refused[kube.KeyOf(c)]; {
		case reason != "":
		case taken != "" && !ok:
			reason, why = agentrollout.ReasonTaken, taken
		case !ok || b.Annotations[agentrollout.AnnotationOwn] != m.SettingsDigest(c):
			continue // it is not written yet
		default:
			out.Status = agentrollout.Reported(c)
		}
		note := agentrollout.DrainBlockedReason(c, m.Settings.AgentReplicas)
		out.Status.Conditions = condition.Set(c.Status.Conditions, agentrollout.Reconciled(c, reason, why, note), l.cfg.Now())
		if _, err := l.clusters.PatchStatus(ctx, c, out); err != nil {
			failed = kube.IgnoreGone(err) // a conflict passes
		}
	}
	return failed
}

// bundleOf returns the key of the Bundle of a Cluster's agent.
func bundleOf(c *fleet.Cluster) kube.Key {
	return kube.Key{Namespace: c.Namespace, Name: naming.AgentBundle(c.Name)}
}
