package workspace

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// reasonPruned is the reason of events of Clusters whose fields are not kept.
const reasonPruned = "FieldsNotKept"

// A clusterLoop creates Fleet's Clusters for Rancher's clusters. Its keys are those of
// provisioning Clusters.
type clusterLoop struct {
	log    *logrus.Entry
	events *kube.Recorder
	mode   plan.Mode
	part   *part
	view   *caches
	loop   *kube.Controller
	fleet  *kube.Store[*fleet.Cluster]
	groups *kube.Store[*fleet.ClusterGroup]
	short  prunedFields
	writes ownWrites
}

func newClusterLoop(p ports) *clusterLoop {
	c := p.client.Loop("rancher-clusters")
	l := &clusterLoop{
		log: p.log, events: p.events, mode: p.mode, part: p.part, view: p.view, short: prunedFields{now: p.now},
		fleet: kube.StoreOf[*fleet.Cluster](c), groups: kube.StoreOf[*fleet.ClusterGroup](c),
	}
	l.loop = kube.NewController("rancher-clusters", 4, l.Reconcile)
	p.view.provisioning.OnChange(func(old, p *provisioning.Cluster) {
		add := l.loop.Add
		if old != nil && p != nil && specChanged(old, p, func(p *provisioning.Cluster) any { return p.Spec }) {
			add = l.loop.AddFirst
		}
		add(kube.KeyOf(orOld(old, p)))
	})
	p.view.management.OnChange(func(old, m *management.Cluster) {
		add := l.loop.Add
		if old != nil && m != nil && specChanged(old, m, func(m *management.Cluster) any { return m.Spec }) {
			add = l.loop.AddFirst
		}
		l.enqueueMapped(orOld(old, m).Name, add)
	})
	p.view.clusters.OnChange(func(old, c *fleet.Cluster) { l.enqueueSource(orOld(old, c)) })
	p.view.settings.OnChange(func(old, st *management.Setting) {
		switch orOld(old, st).Name {
		case plan.SettingRegistry, plan.SettingPullSecrets, plan.SettingAffinity:
			p.wake()
		}
	})
	p.view.groups.OnChange(func(_, _ *fleet.ClusterGroup) { l.enqueueMapped(plan.Local, l.loop.Add) })
	p.view.nodes.OnChange(func(_, _ *corev1.Node) { l.enqueueMapped(plan.Local, l.loop.Add) })
	return l
}

// enqueueMapped enqueues what is mapped from a management Cluster.
func (l *clusterLoop) enqueueMapped(name string, add func(kube.Key)) {
	for _, p := range l.view.provisioning.ByIndex(byManagement, name) {
		add(kube.KeyOf(p))
	}
}

// enqueueSource enqueues the provisioning Cluster that a Fleet Cluster was mapped from:
// a user may have edited the Fleet Cluster.
func (l *clusterLoop) enqueueSource(c *fleet.Cluster) {
	for _, from := range []string{c.Annotations[plan.AnnotationMappedFrom], plan.RancherMapped(c.Annotations)} {
		if from != "" {
			l.loop.Add(kube.ParseKey(from))
		}
	}
}

// enqueueAll enqueues all objects of the loop.
func (l *clusterLoop) enqueueAll() {
	for _, p := range l.view.provisioning.List("") {
		l.loop.Add(kube.KeyOf(p))
	}
	for _, c := range l.view.clusters.List("") {
		l.enqueueSource(c) // its origin may be gone
	}
}

// Reconcile brings the Fleet Cluster of one provisioning Cluster in line with it.
//
//  1. gather: the provisioning and the management Cluster, settings, nodes
//  2. decide: plan.IsRancherManaged, MapCluster (pure)
//  3. apply:  the Fleet Cluster first, then what was mapped before elsewhere goes
func (l *clusterLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.part.managerMaps() {
		return kube.Done, nil
	}
	if l.ofRancher(key) {
		return kube.Done, nil
	}
	p, ok := l.view.provisioning.Get(key)
	if !ok || p.DeletionTimestamp != nil {
		return kube.Done, l.deleteMapped(ctx, key, kube.Key{})
	}
	m, ok := l.view.management.Get(kube.Key{Name: p.Status.ClusterName})
	if !ok {
		m = nil
	}
	want, verdict, why, err := plan.MapCluster(p, m, l.view.surroundings())
	switch {
	case err != nil:
		return kube.Done, err
	case verdict == plan.Keep:
		return kube.Done, nil
	case verdict == plan.Remove:
		l.log.WithField("workspace", key.Namespace).WithField("cluster", key.Name).WithField("reason", why).Debug("not mapped")
		return kube.Done, l.deleteMapped(ctx, key, kube.Key{})
	}
	want.Annotations[plan.AnnotationMappedFrom] = key.String()
	next, err := l.writeCluster(ctx, want)
	if err != nil {
		return kube.Done, err
	}
	if m.Spec.Internal {
		if err := l.ensureLocalGroup(ctx, p.Namespace); err != nil {
			return kube.Done, err
		}
	}
	return next, l.deleteMapped(ctx, key, kube.KeyOf(want))
}

// ofRancher reports whether Rancher manages the Fleet Cluster of a provisioning Cluster
// although Rancher is not running.
func (l *clusterLoop) ofRancher(key kube.Key) bool {
	for _, c := range l.view.clusters.ByIndex(byRancher, key.String()) {
		if plan.IsRancherManaged(l.mode, c.Annotations) {
			return true
		}
	}
	return false
}

// writeCluster writes a Fleet Cluster that differs from the desired one. It adopts a
// Cluster that a user has created, as Rancher does.
func (l *clusterLoop) writeCluster(ctx context.Context, want *fleet.Cluster) (kube.Result, error) {
	digest, err := plan.Digest(want)
	if err != nil {
		return kube.Done, err
	}
	want.Annotations[plan.AnnotationMapped] = digest
	if live, ok := l.view.clusters.Get(kube.KeyOf(want)); ok {
		if live.DeletionTimestamp != nil || plan.IsRancherManaged(l.mode, live.Annotations) {
			return kube.Done, nil // the event of its deletion enqueues the key; or Rancher manages it
		}
		if l.writes.unseen(live) {
			return kube.Done, nil
		}
		same, err := plan.HasFields(comparedClusterFields(live), comparedClusterFields(want))
		if err != nil || same {
			l.short.forget(kube.KeyOf(want))
			return kube.Done, err
		}
		if left := l.short.remaining(kube.KeyOf(live), digest, comparedClusterFields(live)); left > 0 {
			return kube.Result{After: left}, nil
		}
	}
	written, err := l.fleet.ApplyKept(ctx, want)
	if err != nil {
		return kube.Done, fmt.Errorf("map cluster %q: %w", kube.KeyOf(want), err)
	}
	l.writes.set(written)
	l.log.WithField("workspace", want.Namespace).WithField("cluster", want.Name).Info("cluster mapped")
	return l.reportPruned(written, want, digest)
}

// reportPruned reports fields that the API server drops, because its CRD is older, and
// requeues the Cluster.
func (l *clusterLoop) reportPruned(written, want *fleet.Cluster, wanted string) (kube.Result, error) {
	same, err := plan.HasFields(comparedClusterFields(written), comparedClusterFields(want))
	if err != nil || same {
		return kube.Done, err
	}
	if err := l.short.set(kube.KeyOf(want), wanted, comparedClusterFields(written)); err != nil {
		return kube.Done, err
	}
	l.events.Event(written, kube.Warning, reasonPruned, "the kind Cluster in this cluster lacks fields that Rancher's clusters need: upgrade the chart fleet-crd")
	l.log.WithField("workspace", want.Namespace).WithField("cluster", want.Name).WithField("reason", reasonPruned).Warn("fields of the cluster are lost")
	return kube.Result{After: prunedAgain}, nil
}

// comparedClusterFields returns the fields of a Fleet Cluster that are compared.
func comparedClusterFields(c *fleet.Cluster) any {
	return struct {
		Labels, Annotations map[string]string
		Spec                fleet.ClusterSpec
	}{c.Labels, c.Annotations, c.Spec}
}

// deleteMapped deletes the Fleet Clusters that were mapped from key, except keep.
func (l *clusterLoop) deleteMapped(ctx context.Context, key, keep kube.Key) error {
	for _, c := range l.view.clusters.ByIndex(byOrigin, key.String()) {
		if kube.KeyOf(c) == keep || c.DeletionTimestamp != nil || plan.IsRancherManaged(l.mode, c.Annotations) {
			continue
		}
		if err := l.fleet.Delete(ctx, kube.KeyOf(c), kube.Precondition{UID: c.UID}); err != nil {
			return err
		}
		l.short.forget(kube.KeyOf(c))
		l.writes.forget(kube.KeyOf(c))
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).Info("cluster unmapped")
	}
	return nil
}

// ensureLocalGroup creates the ClusterGroup of the local cluster, as Rancher does.
func (l *clusterLoop) ensureLocalGroup(ctx context.Context, namespace string) error {
	want := plan.LocalGroup(namespace)
	if live, ok := l.view.groups.Get(kube.KeyOf(want)); ok {
		same, err := plan.HasFields(live.Spec, want.Spec)
		if err != nil || same || live.DeletionTimestamp != nil || plan.IsRancherManaged(l.mode, live.Annotations) {
			return err
		}
	}
	_, err := l.groups.Apply(ctx, want)
	return err
}

// orOld returns changed, or old if changed is nil: the object that a deletion reports.
func orOld[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}
