package agents

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// OnBundle calls f for each change of the Bundle of an agent.
func (l *Loop) OnBundle(f func(old, b *fleet.Bundle)) { l.known.OnChange(f) }

// OnBrake calls f when the brake of all workspaces may have changed.
func (l *Loop) OnBrake(f func()) { l.brake.OnChange(func(_, _ *corev1.ConfigMap) { f() }) }

// Suspended reports whether the brake is on.
func (l *Loop) Suspended() bool {
	m, ok := l.brake.Get(kube.Key{Namespace: l.cfg.System.Namespace, Name: fleet.ConfigMapBrake})
	return ok && view.ParseBrake(m.Data).On
}

// Wanted returns the agent of a Cluster as it should be installed now: with the
// image that the rollout of agents gives it now.
func (l *Loop) Wanted(ctx context.Context, c *fleet.Cluster) (registration.Agent, error) {
	m, err := l.manager(ctx)
	if err != nil {
		return registration.Agent{}, err
	}
	if b, ok := l.known.Get(bundleOf(c)); ok && !l.cfg.Settings.AgentsUnmanaged {
		if has := agentrollout.ParseBuild(b.Annotations[agentrollout.AnnotationBuild]); has.Image != "" {
			m.Settings.AgentImage = has.Image
		}
	}
	a, err := m.Wanted(c)
	return a, reconcile.TerminalError(agentrollout.ReasonSettings, err)
}

// Own returns a digest of what a Cluster asks of its agent; empty where the manager does
// not update that agent.
func (l *Loop) Own(c *fleet.Cluster) string {
	m := agentrollout.Manager{Settings: l.cfg.Settings, System: l.cfg.System}
	if !m.Manages(c) {
		return ""
	}
	return m.Own(c)
}

// Deployed reports whether the agent of a Cluster has deployed, itself, what is asked of
// it, where that has a digest. From then on the agent knows which objects to remove.
func (l *Loop) Deployed(ctx context.Context, c *fleet.Cluster, own string) (bool, error) {
	b, ok := l.known.Get(bundleOf(c))
	if !ok || b.Status.Summary.Ready == 0 || b.Annotations[agentrollout.AnnotationOwn] != own {
		return false, nil
	}
	return l.arrived(ctx, c, b)
}

// Ordered reports whether what is asked of the agent's own deployment is what its
// Cluster says now. Where the manager does not manage the agent, nothing can be out of
// date.
func (l *Loop) Ordered(ctx context.Context, c *fleet.Cluster) (bool, error) {
	m, err := l.manager(ctx)
	if err != nil || !m.Manages(c) {
		return true, err
	}
	b, ok := l.known.Get(bundleOf(c))
	if !ok || b.Annotations[agentrollout.AnnotationOwn] != m.Own(c) {
		return false, nil
	}
	namespace, ok := registration.DeploymentNamespace(c)
	if !ok {
		return false, nil
	}
	bd, err := l.pairs.Get(ctx, kube.Key{Namespace: namespace, Name: b.Name})
	if err != nil {
		return false, kube.IgnoreGone(err)
	}
	return agentrollout.Ordered(b, bd), nil
}
