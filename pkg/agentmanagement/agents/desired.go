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

// OnSuspension calls f when the suspension of the whole fleet may have changed.
func (l *Loop) OnSuspension(f func()) { l.suspension.OnChange(func(_, _ *corev1.ConfigMap) { f() }) }

// Suspended reports whether the whole fleet is suspended ("fleet suspend --all").
func (l *Loop) Suspended() bool {
	m, ok := l.suspension.Get(kube.Key{Namespace: l.cfg.System.Namespace, Name: fleet.ConfigMapBrake})
	return ok && view.ParseGlobalPause(m.Data).On
}

// DesiredAgent returns the agent that a Cluster should have now, with the image that
// the rollout of agents gives it.
func (l *Loop) DesiredAgent(ctx context.Context, c *fleet.Cluster) (registration.Agent, error) {
	m, err := l.manager(ctx)
	if err != nil {
		return registration.Agent{}, err
	}
	if b, ok := l.known.Get(bundleOf(c)); ok && !l.cfg.Settings.AgentsUnmanaged {
		if has := agentrollout.ParseBuild(b.Annotations[agentrollout.AnnotationBuild]); has.Image != "" {
			m.Settings.AgentImage = has.Image
		}
	}
	a, err := m.DesiredAgent(c)
	return a, reconcile.TerminalError(agentrollout.ReasonSettings, err)
}

// DesiredDigest returns a digest of the configuration of a Cluster's agent; empty if
// the manager does not update that agent.
func (l *Loop) DesiredDigest(c *fleet.Cluster) string {
	m := agentrollout.Manager{Settings: l.cfg.Settings, System: l.cfg.System}
	if !m.Manages(c) {
		return ""
	}
	return m.SettingsDigest(c)
}

// Deployed reports whether the agent of a Cluster has deployed itself with the
// configuration of a digest. From then on the agent removes objects that it does not
// need any more.
func (l *Loop) Deployed(ctx context.Context, c *fleet.Cluster, own string) (bool, error) {
	b, ok := l.known.Get(bundleOf(c))
	if !ok || b.Status.Summary.Ready == 0 || b.Annotations[agentrollout.AnnotationOwn] != own {
		return false, nil
	}
	return l.isDeployed(ctx, c, b)
}

// IsCurrent reports whether the BundleDeployment of an agent has the present
// configuration of its Cluster. It is true if the manager does not manage the agent.
func (l *Loop) IsCurrent(ctx context.Context, c *fleet.Cluster) (bool, error) {
	m, err := l.manager(ctx)
	if err != nil || !m.Manages(c) {
		return true, err
	}
	b, ok := l.known.Get(bundleOf(c))
	if !ok || b.Annotations[agentrollout.AnnotationOwn] != m.SettingsDigest(c) {
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
