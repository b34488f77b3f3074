package workspace

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// assignLoop gives management Clusters a workspace, and legacy ones their
// provisioning Cluster. Its keys are those of management Clusters.
type assignLoop struct {
	log          *logrus.Entry
	mode         plan.Mode
	part         *part
	view         *caches
	loop         *kube.Controller
	management   *kube.Store[*management.Cluster]
	provisioning *kube.Store[*provisioning.Cluster]
	namespaces   *kube.Store[*corev1.Namespace]
	short        prunedFields
}

func newAssignLoop(p ports) *assignLoop {
	c := p.client.Loop("rancher-assign")
	l := &assignLoop{
		log: p.log, mode: p.mode, part: p.part, view: p.view, short: prunedFields{now: p.now},
		management: kube.StoreOf[*management.Cluster](c), provisioning: kube.StoreOf[*provisioning.Cluster](c),
		namespaces: kube.StoreOf[*corev1.Namespace](c),
	}
	l.loop = kube.NewController("rancher-assign", 2, l.Reconcile)
	p.view.management.OnChange(func(old, m *management.Cluster) { l.loop.Add(kube.KeyOf(orOld(old, m))) })
	p.view.provisioning.OnChange(func(old, p *provisioning.Cluster) {
		if name := orOld(old, p).Name; plan.Legacy(name) {
			l.loop.Add(kube.Key{Name: name})
		}
	})
	p.view.clusters.OnChange(func(old, c *fleet.Cluster) {
		onCreateOrDelete(old, c, func(c *fleet.Cluster) {
			if plan.Legacy(c.Name) {
				l.loop.Add(kube.Key{Name: c.Name})
			}
		})
	})
	p.view.namespaces.OnChange(func(old, ns *meta) {
		onCreateOrDelete(old, ns, func(ns *meta) {
			for _, m := range p.view.management.ByIndex(byHome, ns.Name) {
				l.loop.Add(kube.KeyOf(m))
			}
		})
	})
	p.view.settings.OnChange(func(old, st *management.Setting) {
		if orOld(old, st).Name == plan.SettingDefaultWorkspace {
			p.wake()
		}
	})
	return l
}

// enqueueAll enqueues all objects of the loop.
func (l *assignLoop) enqueueAll() {
	for _, m := range l.view.management.List("") {
		l.loop.Add(kube.KeyOf(m))
	}
}

// Reconcile patches the workspace of one management Cluster, and writes the
// provisioning Cluster of a legacy one.
func (l *assignLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.part.managerMaps() {
		return kube.Done, nil
	}
	m, ok := l.view.management.Get(key)
	if !ok || m.DeletionTimestamp != nil {
		return kube.Done, nil // Rancher's finalizers remove Rancher's own data
	}
	if name, ok := plan.Assign(m, l.view.setting(plan.SettingDefaultWorkspace)); ok {
		changed := m.DeepCopy()
		changed.Spec.FleetWorkspaceName = name
		if _, err := l.management.Patch(ctx, m, changed); err != nil {
			return kube.Done, fmt.Errorf("assign cluster %q to workspace %q: %w", m.Name, name, err)
		}
		l.log.WithField("workspace", name).WithField("cluster", m.Name).Info("cluster assigned")
		return kube.Done, nil // the watch event enqueues the key again
	}
	return kube.Done, l.writeProvisioning(ctx, m)
}

// writeProvisioning writes the provisioning Cluster of a legacy cluster. It sets only
// the mapped fields. If the cluster has moved, it writes the new provisioning Cluster
// first.
func (l *assignLoop) writeProvisioning(ctx context.Context, m *management.Cluster) error {
	want := plan.ProvisioningFor(m)
	if want == nil {
		return nil
	}
	if _, ok := l.view.namespaces.Get(kube.Key{Name: want.Namespace}); !ok {
		return l.ensureLocalNamespace(ctx, want.Namespace) // the watch event enqueues the key again
	}
	halves := l.view.provisioning.ByIndex(byLegacy, m.Name)
	for _, p := range halves {
		if plan.IsRancherManaged(l.mode, p.Annotations) {
			return nil
		}
	}
	digest, err := plan.Digest(want)
	if err != nil {
		return err
	}
	want.Annotations[plan.AnnotationMapped] = digest // so that a value that a user removes is noticed
	if live, ok := l.view.provisioning.Get(kube.KeyOf(want)); ok {
		same, err := plan.HasFields(comparedFields(live), comparedFields(want))
		if err != nil || live.DeletionTimestamp != nil {
			return err
		}
		if same || l.short.remaining(kube.KeyOf(want), digest, comparedFields(live)) > 0 {
			return l.deleteFormer(ctx, m, halves)
		}
		if emptied, ok := plan.WithoutMappedFields(live, want); ok {
			_, err := l.provisioning.Patch(ctx, live, emptied)
			return err // the watch event enqueues the key again
		}
	}
	written, err := l.provisioning.ApplyKept(ctx, want)
	if err != nil {
		return err
	}
	same, err := plan.HasFields(comparedFields(written), comparedFields(want))
	if err != nil || same {
		l.short.forget(kube.KeyOf(want))
		return err // the watch event enqueues the key again
	}
	if err := l.short.set(kube.KeyOf(want), digest, comparedFields(written)); err != nil {
		return err
	}
	return l.deleteFormer(ctx, m, halves) // nothing else depends on this write
}

// ensureLocalNamespace creates the namespace of the local cluster, as Rancher does at
// every start if its feature fleet is on. Users create other workspaces.
func (l *assignLoop) ensureLocalNamespace(ctx context.Context, namespace string) error {
	if namespace != fleet.NamespaceLocal {
		return nil
	}
	_, err := l.namespaces.Create(ctx, plan.LocalNamespace())
	if kube.IsExists(err) {
		return nil
	}
	return err
}

// deleteFormer deletes the provisioning Clusters of a management Cluster in former
// workspaces, once it has its Fleet Cluster in the present one. It keeps objects of
// other owners.
func (l *assignLoop) deleteFormer(ctx context.Context, m *management.Cluster, halves []*provisioning.Cluster) error {
	home := kube.Key{Namespace: m.Spec.FleetWorkspaceName, Name: m.Name}
	if c, ok := l.view.clusters.Get(home); !ok || c.Annotations[plan.AnnotationMappedFrom] != home.String() {
		return nil // the watch event enqueues the key again
	}
	for _, p := range halves {
		if !plan.OldHalf(p, m) || !plan.MadeOf(p, m) || p.DeletionTimestamp != nil {
			continue
		}
		if err := l.provisioning.Delete(ctx, kube.KeyOf(p), kube.Precondition{UID: p.UID}); err != nil {
			return err
		}
		l.log.WithField("workspace", p.Namespace).WithField("cluster", p.Name).Info("cluster has moved")
	}
	return nil
}

// comparedFields returns the fields of a provisioning Cluster that are compared.
func comparedFields(p *provisioning.Cluster) any {
	return struct {
		Labels, Annotations map[string]string
		Rancher, Webhook    *runtime.RawExtension
		Fleet               *management.AgentDeploymentCustomization
	}{p.Labels, p.Annotations, p.Spec.ClusterAgentDeploymentCustomization, p.Spec.WebhookDeploymentCustomization, p.Spec.FleetAgentDeploymentCustomization}
}
