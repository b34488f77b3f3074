package workspace

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// defaultsKey is the key of the workspace that new clusters get. No management
// Cluster has such a name.
var defaultsKey = kube.Key{Name: "default workspace"}

// reasonSetting is the reason of events of settings that cannot be used.
const reasonSetting = plan.ReasonSetting

// defaultsLoop gives Rancher's settings their effect on Rancher's own objects: it
// makes the workspace for new clusters, and fills in what clusters ask for once by
// an annotation. Its keys are those of provisioning Clusters, of legacy management
// Clusters, which have no namespace, and defaultsKey.
type defaultsLoop struct {
	log          *logrus.Entry
	part         *part
	view         *caches
	spaces       bool // there is the kind of workspaces
	loop         *kube.Controller
	problems     eventReporter
	workspaces   *kube.Store[*management.FleetWorkspace]
	management   *kube.Store[*management.Cluster]
	provisioning *kube.Store[*provisioning.Cluster]
}

func newDefaultsLoop(p ports) *defaultsLoop {
	c := p.client.Loop("rancher-defaults")
	l := &defaultsLoop{
		log: p.log, part: p.part, view: p.view, spaces: p.served[kindWorkspace],
		problems: eventReporter{log: p.log, events: p.events}, workspaces: kube.StoreOf[*management.FleetWorkspace](c),
		management: kube.StoreOf[*management.Cluster](c), provisioning: kube.StoreOf[*provisioning.Cluster](c),
	}
	l.loop = kube.NewController("rancher-defaults", 1, l.Reconcile)
	p.view.management.OnChange(func(_, m *management.Cluster) {
		if m != nil && m.Annotations[plan.AnnotationScheduling] != "" {
			l.loop.Add(kube.KeyOf(m))
		}
	})
	p.view.provisioning.OnChange(func(_, p *provisioning.Cluster) {
		if p != nil && p.Annotations[plan.AnnotationScheduling] != "" {
			l.loop.Add(kube.KeyOf(p))
		}
	})
	p.view.settings.OnChange(func(old, st *management.Setting) {
		switch orOld(old, st).Name {
		case plan.SettingDefaultWorkspace:
			l.loop.Add(defaultsKey)
		case plan.SettingPriorityClass, plan.SettingBudget:
			l.enqueueAll()
		}
	})
	p.view.features.OnChange(func(_, _ *management.Feature) { l.enqueueAll() })
	p.view.workspaces.OnChange(func(old, w *management.FleetWorkspace) {
		onCreateOrDelete(old, w, func(*management.FleetWorkspace) { l.loop.Add(defaultsKey) })
	})
	return l
}

// enqueueAll enqueues all objects of the loop.
func (l *defaultsLoop) enqueueAll() {
	l.loop.Add(defaultsKey)
	for _, m := range l.view.management.List("") {
		if m.Annotations[plan.AnnotationScheduling] != "" {
			l.loop.Add(kube.KeyOf(m))
		}
	}
	for _, p := range l.view.provisioning.List("") {
		if p.Annotations[plan.AnnotationScheduling] != "" {
			l.loop.Add(kube.KeyOf(p))
		}
	}
}

// isFeatureOn reports whether a feature of Rancher is on; fallback if Rancher does not
// have it.
func (l *defaultsLoop) isFeatureOn(feature string, fallback bool) bool {
	f, ok := l.view.features.Get(kube.Key{Name: feature})
	if !ok {
		return fallback
	}
	return f.On()
}

// Reconcile creates the default workspace, or completes one cluster by the defaults.
func (l *defaultsLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	switch {
	case !l.part.managerMaps():
		return kube.Done, nil
	case key == defaultsKey:
		return kube.Done, l.ensureDefaultWorkspace(ctx)
	case !l.isFeatureOn(plan.FeatureScheduling, false):
		return kube.Done, nil // Rancher leaves the annotation as it is, too
	case key.Namespace != "":
		return kube.Done, l.completeProvisioning(ctx, key)
	case plan.Legacy(key.Name):
		return kube.Done, l.completeManagement(ctx, key)
	}
	return kube.Done, nil
}

// ensureDefaultWorkspace creates the workspace that the setting names. A workspace that
// it named before stays, with its clusters.
func (l *defaultsLoop) ensureDefaultWorkspace(ctx context.Context) error {
	name := l.view.setting(plan.SettingDefaultWorkspace)
	key := kube.Key{Name: name}
	if !l.spaces {
		return nil
	}
	if _, there := l.view.workspaces.Get(key); name == "" || there || !l.isFeatureOn(plan.FeatureClusters, true) {
		return nil
	}
	ns, ok := l.view.namespaces.Get(key)
	if !ok {
		ns = nil
	}
	w := plan.DefaultWorkspace(name, ns)
	if s, ok := l.view.settings.Get(kube.Key{Name: plan.SettingDefaultWorkspace}); ok && w == nil {
		l.problems.report(s, reasonSetting, fmt.Sprintf("setting %s of Rancher: %q belongs to the system and cannot be a workspace: choose another name", s.Name, name))
	} else if ok {
		l.problems.clear(s)
	}
	if w == nil {
		return nil
	}
	_, err := l.workspaces.Create(ctx, w)
	switch {
	case kube.IsExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("workspace %q of setting %s: %w", name, plan.SettingDefaultWorkspace, err)
	}
	l.log.WithField("workspace", name).Info("workspace for new clusters made")
	return nil
}

// completeProvisioning completes a provisioning Cluster by the defaults that it asks
// for.
func (l *defaultsLoop) completeProvisioning(ctx context.Context, key kube.Key) error {
	p, ok := l.view.provisioning.Get(key)
	if !ok || p.DeletionTimestamp != nil {
		return nil
	}
	defaults, err := l.scheduling()
	if err != nil {
		return err
	}
	annotations, custom, ok := plan.Backfill(p.Annotations, p.Spec.FleetAgentDeploymentCustomization, defaults)
	if !ok {
		return nil
	}
	changed := p.DeepCopy()
	changed.Annotations, changed.Spec.FleetAgentDeploymentCustomization = annotations, custom
	_, err = l.provisioning.Patch(ctx, p, changed)
	return err
}

// completeManagement completes a legacy management Cluster by the defaults that it asks
// for.
func (l *defaultsLoop) completeManagement(ctx context.Context, key kube.Key) error {
	m, ok := l.view.management.Get(key)
	if !ok || m.DeletionTimestamp != nil {
		return nil
	}
	defaults, err := l.scheduling()
	if err != nil {
		return err
	}
	annotations, custom, ok := plan.Backfill(m.Annotations, m.Spec.FleetAgentDeploymentCustomization, defaults)
	if !ok {
		return nil
	}
	changed := m.DeepCopy()
	changed.Annotations, changed.Spec.FleetAgentDeploymentCustomization = annotations, custom
	_, err = l.management.Patch(ctx, m, changed)
	return err
}

// scheduling returns the defaults in the settings. An error names a setting that cannot
// be parsed.
func (l *defaultsLoop) scheduling() (*fleet.AgentSchedulingCustomization, error) {
	defaults, broken, err := plan.Scheduling(l.view.setting)
	for _, name := range []string{plan.SettingPriorityClass, plan.SettingBudget} {
		s, ok := l.view.settings.Get(kube.Key{Name: name})
		switch {
		case !ok:
		case name == broken:
			l.problems.report(s, reasonSetting, err.Error())
		case err == nil:
			l.problems.clear(s)
		}
	}
	return defaults, err
}
