package workspace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// clusterLoop makes Fleet Clusters of Rancher's. Its keys are those of
// provisioning Clusters.
type clusterLoop struct {
	*stage
	loop   *kube.Loop
	fleet  *kube.Store[*fleet.Cluster]
	groups *kube.Store[*fleet.ClusterGroup]
}

func newClusterLoop(s *stage, c *kube.Client) *clusterLoop {
	l := &clusterLoop{stage: s, fleet: kube.StoreOf[*fleet.Cluster](c), groups: kube.StoreOf[*fleet.ClusterGroup](c)}
	l.loop = kube.NewLoop("rancher-clusters", 4, l.Reconcile)
	s.view.provisioning.OnChange(func(old, p *provisioning.Cluster) { l.loop.Add(kube.KeyOf(either(old, p))) })
	s.view.management.OnChange(func(old, m *management.Cluster) { l.ofManagement(either(old, m).Name) })
	s.view.clusters.OnChange(func(old, c *fleet.Cluster) { l.ofMapped(either(old, c)) })
	s.view.settings.OnChange(func(old, st *management.Setting) {
		if name := either(old, st).Name; name == plan.SettingRegistry || name == plan.SettingAffinity {
			s.wake()
		}
	})
	s.view.nodes.OnChange(func(_, _ *corev1.Node) { l.ofManagement(plan.Local) })
	return l
}

func (l *clusterLoop) ofManagement(name string) {
	for _, p := range l.view.provisioning.ByIndex(byManagement, name) {
		l.loop.Add(kube.KeyOf(p))
	}
}

// ofMapped wakes up what a Fleet Cluster was mapped from: somebody may have
// changed it.
func (l *clusterLoop) ofMapped(c *fleet.Cluster) {
	if from := c.Annotations[plan.AnnotationMappedFrom]; from != "" {
		l.loop.Add(kube.ParseKey(from))
	}
}

// Reconcile brings the Fleet Cluster of one provisioning Cluster in line with it.
//
//  1. gather: the provisioning and the management Cluster, settings, nodes
//  2. decide: plan.Mapped (pure)
//  3. apply:  the Fleet Cluster first, then what was mapped before elsewhere goes
func (l *clusterLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Next, error) {
	if !l.maps() {
		return kube.Done, nil
	}
	p, ok := l.view.provisioning.Get(key)
	if !ok || p.DeletionTimestamp != nil {
		return kube.Done, l.remove(ctx, key, kube.Key{})
	}
	m, ok := l.view.management.Get(kube.Key{Name: p.Status.ClusterName})
	if !ok {
		m = nil
	}
	want, verdict, why, err := plan.Mapped(p, m, l.view.surroundings())
	switch {
	case err != nil:
		return kube.Done, err
	case verdict == plan.Keep:
		return kube.Done, nil
	case verdict == plan.Remove:
		l.log.WithField("workspace", key.Namespace).WithField("cluster", key.Name).WithField("reason", why).Debug("not mapped")
		return kube.Done, l.remove(ctx, key, kube.Key{})
	}
	want.Annotations[plan.AnnotationMappedFrom] = key.String()
	if err := l.put(ctx, want); err != nil {
		return kube.Done, err
	}
	if m.Spec.Internal {
		if err := l.group(ctx, p.Namespace); err != nil {
			return kube.Done, err
		}
	}
	return kube.Done, l.remove(ctx, key, kube.KeyOf(want))
}

// put writes a Fleet Cluster if it does not say what it should. One that was made
// by hand is taken over, as Rancher does.
func (l *clusterLoop) put(ctx context.Context, want *fleet.Cluster) error {
	digest, err := plan.Digest(want)
	if err != nil {
		return err
	}
	want.Annotations[plan.AnnotationMapped] = digest
	if live, ok := l.view.clusters.Get(kube.KeyOf(want)); ok {
		if live.DeletionTimestamp != nil {
			return nil // it is made again when it has gone
		}
		same, err := plan.Holds(body(live), body(want))
		if err != nil || same {
			return err
		}
	}
	if _, err := l.fleet.Apply(ctx, want); err != nil {
		return fmt.Errorf("map cluster %q: %w", kube.KeyOf(want), err)
	}
	l.log.WithField("workspace", want.Namespace).WithField("cluster", want.Name).Info("cluster mapped")
	return nil
}

// body is what is compared of a Cluster.
func body(c *fleet.Cluster) any {
	return struct {
		Labels, Annotations map[string]string
		Spec                fleet.ClusterSpec
	}{c.Labels, c.Annotations, c.Spec}
}

// remove deletes what was mapped from key, but for keep.
func (l *clusterLoop) remove(ctx context.Context, key, keep kube.Key) error {
	for _, c := range l.view.clusters.ByIndex(byOrigin, key.String()) {
		if kube.KeyOf(c) == keep || c.DeletionTimestamp != nil {
			continue
		}
		if err := l.fleet.Delete(ctx, kube.KeyOf(c), kube.Precondition{UID: c.UID}); err != nil {
			return err
		}
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).Info("cluster unmapped")
	}
	return nil
}

// group makes the ClusterGroup of the local cluster, once.
func (l *clusterLoop) group(ctx context.Context, namespace string) error {
	_, err := l.groups.Create(ctx, plan.Group(namespace))
	if kube.IsExists(err) {
		return nil
	}
	return err
}

func either[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}
