// Package move finds the Clusters that move to another workspace, and does the steps
// between Rancher's two writes: Rancher makes a new Cluster and deletes the old one.
// The new one gets the settings that users had set on the old one. The old one stays
// until its agent works for the new one and the controllers have withdrawn what the new
// workspace does not deploy. Package workspace of pkg/plan decides what counts as a
// move.
package move

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// reasonMoving is the reason of events about a Cluster that moves to another
// workspace.
const reasonMoving = "Moving"

// kindsGone is how long Rancher's kinds must be missing from the API server's list
// before a deleted Cluster is taken as not moving. They are also missing while the API
// server starts, or while a kind is replaced.
const kindsGone = time.Minute

// byRancher is the index of Clusters by the name of their management Cluster.
const byRancher = "rancher"

// Config configures the loop.
type Config struct {
	Scope   scope.Scope
	Rancher rancher.Reader
	Wake    func(kube.Key)   // is called with a Cluster that is deleted and may have waited for a change
	Now     func() time.Time // the clock
}

// A Loop writes on new Clusters where they come from, and answers which Clusters move.
type Loop struct {
	cfg        Config
	log        *logrus.Entry
	caches     *cache.Shared
	events     *kube.Recorder
	clusters   *kube.Store[*fleet.Cluster]
	namespaces *kube.Store[*corev1.Namespace]
	loop       *kube.Controller
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	m := &Loop{
		cfg: cfg, log: log, caches: caches, events: events,
		clusters: kube.StoreOf[*fleet.Cluster](c), namespaces: kube.StoreOf[*corev1.Namespace](c),
	}
	m.loop = kube.NewController("moves", 2, kube.Within(cfg.Scope.Holds, m.Reconcile))
	caches.Clusters.Index(byRancher, func(c *fleet.Cluster) []string {
		if name := c.Labels[fleet.LabelManagementCluster]; name != "" {
			return []string{name}
		}
		return nil
	})
	caches.Clusters.OnChange(func(old, c *fleet.Cluster) {
		if !moveChanges(old, c) {
			return
		}
		for _, s := range m.siblings(cache.Either(old, c)) {
			m.loop.Add(kube.KeyOf(s))
			if s.DeletionTimestamp != nil {
				cfg.Wake(kube.KeyOf(s)) // the Cluster may have waited for this change
			}
		}
	})
	return m
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// moveChanges reports whether a change of a Cluster matters to its move, or to the move
// of another Cluster of the same management Cluster. Later heartbeats do not.
func moveChanges(old, c *fleet.Cluster) bool {
	return cache.ClusterChanged(old, c) || old.Status.Agent.LastSeen.IsZero() != c.Status.Agent.LastSeen.IsZero() ||
		!reflect.DeepEqual(condition.Find(old.Status.Conditions, fleet.ConditionMoving), condition.Find(c.Status.Conditions, fleet.ConditionMoving))
}

// siblings returns all Clusters of the same management Cluster, with c.
func (l *Loop) siblings(c *fleet.Cluster) []*fleet.Cluster {
	name := c.Labels[fleet.LabelManagementCluster]
	if name == "" {
		return nil
	}
	return l.caches.Clusters.ByIndex(byRancher, name)
}

// Former returns the Clusters that c replaces; rancher.ErrUnseen if that is not known.
func (l *Loop) Former(ctx context.Context, c *fleet.Cluster) ([]*fleet.Cluster, error) {
	same := l.siblings(c)
	if len(same) < 2 {
		return nil, nil
	}
	owner, err := l.cfg.Rancher.ManagementOf(ctx, c)
	if reconcile.IsRequeue(err) {
		return nil, nil // without Rancher's kinds no Cluster moves
	}
	if err != nil {
		return nil, err
	}
	return workspace.FormerClusters(c, owner, same), nil
}

// CarryOver copies to a new Cluster what users had set on the Cluster that it replaces,
// and records that on it.
func (l *Loop) CarryOver(ctx context.Context, c, before *fleet.Cluster) error {
	from, err := l.clusters.Get(ctx, kube.KeyOf(before)) // the cache lacks fields
	if err != nil {
		return err
	}
	have, err := l.clusters.Get(ctx, kube.KeyOf(c))
	if err != nil {
		return err
	}
	if _, err := l.clusters.Patch(ctx, have, workspace.CarryUserFields(have, from)); err != nil {
		return err
	}
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", "it comes from workspace "+from.Namespace).Info("cluster moves")
	l.events.Event(c, kube.Normal, reasonMoving, fmt.Sprintf(
		"takes the place of Cluster %s: its clientID, and the labels and settings that users had given it, come along", kube.KeyOf(from)))
	return nil
}

// MustStay reports whether a Cluster that is being deleted must stay because it moves
// to another workspace, and reports on it why. next is when to ask again.
func (l *Loop) MustStay(ctx context.Context, c *fleet.Cluster) (stays bool, next kube.Result, err error) {
	if !slices.Contains(c.Finalizers, fleet.FinalizerCluster) {
		return false, kube.Done, nil
	}
	d, err := l.departure(ctx, c)
	if errors.Is(err, rancher.ErrUnseen) { // who takes a move for a removal loses workloads
		return true, kube.Result{After: rancher.Again}, l.writeCondition(ctx, c, workspace.ReasonRancherUnseen,
			fmt.Sprintf("whether it moves to another workspace is not known, and so it stays: %v", err))
	}
	if err != nil {
		return true, kube.Done, err
	}
	stays, order, why, after := workspace.DecideStay(c, d)
	if !stays {
		return false, kube.Done, nil
	}
	if order {
		changed := c.DeepCopy()
		changed.Annotations = ensure.Merged(c.Annotations, map[string]string{workspace.AnnotationWithdrawIn: kube.KeyOf(d.New).String()})
		if c, err = l.clusters.Patch(ctx, c, changed); err != nil {
			return true, kube.Done, err
		}
	}
	return true, kube.Result{After: after}, l.writeCondition(ctx, c, workspace.ReasonMovesAway, why)
}

// departure gathers the facts about a Cluster that is being deleted.
func (l *Loop) departure(ctx context.Context, c *fleet.Cluster) (workspace.DeletionState, error) {
	d := workspace.DeletionState{Since: l.cfg.Now().Sub(c.DeletionTimestamp.Time)}
	if c.Labels[fleet.LabelManagementCluster] == "" || c.Spec.KubeConfigSecret == "" || registration.External(c) {
		return d, nil // this manager does not configure its agent
	}
	ns, err := l.namespaces.Get(ctx, kube.Key{Name: c.Namespace})
	if err != nil && !kube.IsGone(err) {
		return d, err
	}
	if d.Ends = err != nil || ns.DeletionTimestamp != nil; d.Ends {
		return d, nil
	}
	owner, err := l.cfg.Rancher.ManagementOf(ctx, c)
	if reconcile.IsRequeue(err) && d.Since >= kindsGone {
		err = nil // Rancher is gone, and no Cluster moves
	}
	if err != nil {
		return d, err
	}
	if d.To = workspace.Destination(c, owner); d.To == "" || !l.cfg.Scope.Holds(d.To) {
		d.To = "" // this manager would create the Cluster elsewhere
		return d, nil
	}
	same := l.siblings(c)
	d.New = workspace.FindSuccessor(c, d.To, same)
	if d.New == nil {
		return d, nil
	}
	d.Recognised = hasAgentOf(d.New, c, same)
	if at, ok := l.arrivedSince(d.New); ok {
		d.Arrived, d.ArrivedFor = true, l.cfg.Now().Sub(at)
	}
	return d, nil
}

// hasAgentOf reports whether the agent of c was found to have worked for former, or for
// a Cluster between them: a cluster may move again before its first move is complete.
func hasAgentOf(c, former *fleet.Cluster, same []*fleet.Cluster) bool {
	for range same {
		if workspace.RecognisesAgent(c, former) {
			return true
		}
		i := slices.IndexFunc(same, func(s *fleet.Cluster) bool { return workspace.RecognisesAgent(c, s) })
		if i < 0 {
			return false
		}
		c = same[i]
	}
	return false
}

// arrivedSince returns since when the agent of a Cluster works for it; false: it does
// not.
func (l *Loop) arrivedSince(c *fleet.Cluster) (time.Time, bool) {
	r := clusterimport.RecordOf(c)
	if r == nil || c.Status.Agent.LastSeen.IsZero() {
		return time.Time{}, false
	}
	var at time.Time
	for _, g := range l.caches.Requests.ByIndex(cache.ByCluster, kube.KeyOf(c).String()) {
		if made := g.CreationTimestamp.Time; g.Status.Granted && !made.Before(r.Since) && (at.IsZero() || made.Before(at)) {
			at = made
		}
	}
	return at, !at.IsZero()
}

// Reconcile writes on a Cluster which Cluster it replaces, while that exists. The
// former Cluster has a condition that says what it waits for.
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(key)
	if !ok || c.DeletionTimestamp != nil {
		return kube.Done, nil
	}
	former, err := l.Former(ctx, c)
	if errors.Is(err, rancher.ErrUnseen) {
		return kube.Result{After: rancher.Again}, nil // the condition of the deleted Cluster reports the reason
	}
	if err != nil {
		return kube.Done, err
	}
	for _, f := range former {
		if says := condition.Find(f.Status.Conditions, fleet.ConditionMoving); f.DeletionTimestamp != nil && says != nil {
			return kube.Done, l.writeCondition(ctx, c, workspace.ReasonArrives, workspace.ArrivalMessage(f, says.Message))
		}
	}
	if condition.Find(c.Status.Conditions, fleet.ConditionMoving) == nil {
		return kube.Done, nil
	}
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Remove(c.Status.Conditions, fleet.ConditionMoving)
	if _, err := l.clusters.PatchStatus(ctx, c, changed); err != nil {
		return kube.Done, kube.IgnoreGone(err)
	}
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).Info("cluster has moved")
	l.events.Event(c, kube.Normal, reasonMoving, "has moved here")
	return kube.Done, nil
}

// writeCondition writes condition Moving.
func (l *Loop) writeCondition(ctx context.Context, c *fleet.Cluster, reason, why string) error {
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Set(c.Status.Conditions, workspace.MovingCondition(c, reason, why), l.cfg.Now())
	_, err := l.clusters.PatchStatus(ctx, c, changed)
	return kube.IgnoreGone(err)
}
