// Package identity has the loop that reports on each Cluster which other agents claim
// its identity.
package identity

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Config configures the loop.
type Config struct {
	Scope scope.Scope
	Now   func() time.Time // the clock
}

// A Loop reports on each Cluster which others claim its identity: two agents that
// check in with one identity, and requests that wait to be accepted. It removes a
// user's answer to a request once that is granted.
type Loop struct {
	log      *logrus.Entry
	now      func() time.Time
	caches   *cache.Shared
	events   *kube.Recorder
	loop     *kube.Controller
	clusters *kube.Store[*fleet.Cluster]

	mu    sync.Mutex
	sight map[kube.Key]*registration.AgentSightings
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	l := &Loop{log: log, now: cfg.Now, caches: caches, events: events, clusters: kube.StoreOf[*fleet.Cluster](c), sight: map[kube.Key]*registration.AgentSightings{}}
	l.loop = kube.NewController("identities", 2, kube.Within(cfg.Scope.Holds, l.Reconcile))
	caches.Clusters.OnChange(l.onCluster)
	caches.Requests.OnChange(func(old, r *fleet.ClusterRegistration) {
		for _, one := range []*fleet.ClusterRegistration{old, r} {
			if one != nil && one.Status.ClusterName != "" {
				l.loop.Add(kube.Key{Namespace: one.Namespace, Name: one.Status.ClusterName})
			}
		}
	})
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// onCluster records which agent reports in the status of a Cluster. It is called for
// every change; Reconcile might see only the last of several.
func (l *Loop) onCluster(old, c *fleet.Cluster) {
	if c == nil {
		l.mu.Lock()
		delete(l.sight, kube.KeyOf(old))
		l.mu.Unlock()
		return
	}
	if old != nil && old.Status.Agent.Instance == c.Status.Agent.Instance && !cache.ClusterChanged(old, c) {
		return
	}
	l.mu.Lock()
	s := l.sight[kube.KeyOf(c)]
	if s == nil {
		s = &registration.AgentSightings{}
		l.sight[kube.KeyOf(c)] = s
	}
	s.Record(c, l.now())
	l.mu.Unlock()
	l.loop.Add(kube.KeyOf(c))
}

// Reconcile writes the conditions DuplicateIdentity and RegistrationWaiting of one
// Cluster.
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(key)
	if !ok || withdrawal.IsDeleting(c) || registration.External(c) {
		return kube.Done, nil
	}
	requests := l.caches.Requests.ByIndex(cache.ByCluster, key.String())
	if registration.ClaimSettled(c, requests) {
		patched, err := l.clusters.Patch(ctx, c, registration.ReleaseClaim(c))
		if err != nil {
			return kube.Done, kube.IgnoreGone(err)
		}
		c = patched
	}
	l.mu.Lock()
	var sight registration.AgentSightings
	if s := l.sight[key]; s != nil {
		sight = *s
	}
	l.mu.Unlock()
	changed := c.DeepCopy()
	var next kube.Result
	changed.Status.Conditions, next.After = registration.IdentityConditions(c, &sight, requests, l.now())
	if _, err := l.clusters.PatchStatus(ctx, c, changed); err != nil {
		return kube.Done, kube.IgnoreGone(err)
	}
	now := condition.Find(changed.Status.Conditions, fleet.ConditionDuplicateIdentity)
	if now != nil && condition.Find(c.Status.Conditions, fleet.ConditionDuplicateIdentity) == nil {
		l.events.Event(c, kube.Warning, fleet.ConditionDuplicateIdentity, now.Message)
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", now.Message).Warn("two agents with one identity")
	}
	return next, nil
}
