package workspace

import (
	"context"
	"fmt"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// assignLoop gives management Clusters a workspace, and legacy ones their
// provisioning Cluster. Its keys are those of management Clusters.
type assignLoop struct {
	*stage
	loop         *kube.Loop
	management   *kube.Store[*management.Cluster]
	provisioning *kube.Store[*provisioning.Cluster]
}

func newAssignLoop(s *stage, c *kube.Client) *assignLoop {
	l := &assignLoop{stage: s, management: kube.StoreOf[*management.Cluster](c), provisioning: kube.StoreOf[*provisioning.Cluster](c)}
	l.loop = kube.NewLoop("rancher-assign", 2, l.Reconcile)
	s.view.management.OnChange(func(old, m *management.Cluster) { l.loop.Add(kube.KeyOf(either(old, m))) })
	s.view.provisioning.OnChange(func(old, p *provisioning.Cluster) {
		if name := either(old, p).Name; plan.Legacy(name) {
			l.loop.Add(kube.Key{Name: name})
		}
	})
	s.view.settings.OnChange(func(old, st *management.Setting) {
		if either(old, st).Name == plan.SettingDefaultWorkspace {
			s.wake()
		}
	})
	return l
}

// Reconcile writes one field of a management Cluster, by a patch, and its
// provisioning Cluster where that is made of it.
func (l *assignLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Next, error) {
	if !l.maps() {
		return kube.Done, nil
	}
	m, ok := l.view.management.Get(key)
	if !ok || m.DeletionTimestamp != nil {
		return kube.Done, nil // what Rancher keeps of it goes by Rancher's finalizers
	}
	if name, ok := plan.Assign(m, l.view.setting(plan.SettingDefaultWorkspace)); ok {
		changed := m.DeepCopy()
		changed.Spec.FleetWorkspaceName = name
		if _, err := l.management.Patch(ctx, m, changed); err != nil {
			return kube.Done, fmt.Errorf("assign cluster %q to workspace %q: %w", m.Name, name, err)
		}
		l.log.WithField("workspace", name).WithField("cluster", m.Name).Info("cluster assigned")
		return kube.Done, nil // the change comes back
	}
	return kube.Done, l.provision(ctx, m)
}

// provision writes the provisioning Cluster of a legacy one. It names no field but
// those that are mapped.
func (l *assignLoop) provision(ctx context.Context, m *management.Cluster) error {
	want := plan.Provisioned(m)
	if want == nil || want.Namespace == "" {
		return nil
	}
	if _, ok := l.view.namespaces.Get(kube.Key{Name: want.Namespace}); !ok {
		return nil // the namespace wakes this up, through its workspace
	}
	if live, ok := l.view.provisioning.Get(kube.KeyOf(want)); ok {
		same, err := plan.Holds(provisioned(live), provisioned(want))
		if err != nil || same || live.DeletionTimestamp != nil {
			return err
		}
	}
	_, err := l.provisioning.Apply(ctx, want)
	return err
}

// provisioned is what is compared of a provisioning Cluster.
func provisioned(p *provisioning.Cluster) any {
	return struct {
		Labels, Annotations map[string]string
		Customization       *management.AgentDeploymentCustomization
	}{p.Labels, p.Annotations, p.Spec.FleetAgentDeploymentCustomization}
}
