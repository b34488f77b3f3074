package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Reasons of events of FleetWorkspaces.
const (
	reasonRefused = "NamespaceRefused"
	reasonHeld    = "DeletionRefused"
	reasonLabels  = "LabelsRefused"
)

// keyWorkspace is the key of workspaces in logs.
const keyWorkspace = "workspace"

// namespaceLag is when a workspace is looked at again whose namespace exists and is not in
// the cache yet.
const namespaceLag = time.Second

// A namespaceLoop creates the namespaces of FleetWorkspaces, and FleetWorkspaces for
// namespaces with clusters or bundles. Its keys are the names of both.
type namespaceLoop struct {
	eventReporter
	mode       plan.Mode
	part       *part
	view       *caches
	capi       clusterAPI
	loop       *kube.Controller
	workspaces *kube.Store[*management.FleetWorkspace]
	namespaces *kube.Store[*corev1.Namespace]
	repos      *kube.Store[*fleet.GitRepo]
	missing    *missingTimes // workspaces, by the names of namespaces that were made for them
}

func newNamespaceLoop(p ports, capi clusterAPI) *namespaceLoop {
	c := p.client.Loop("workspaces")
	l := &namespaceLoop{
		eventReporter: eventReporter{log: p.log, events: p.events, key: keyWorkspace}, mode: p.mode, part: p.part, view: p.view, capi: capi, missing: newMissingTimes(p.now),
		workspaces: kube.StoreOf[*management.FleetWorkspace](c), namespaces: kube.StoreOf[*corev1.Namespace](c), repos: kube.StoreOf[*fleet.GitRepo](c),
	}
	l.loop = kube.NewController("workspaces", 2, l.Reconcile)
	wake := func(name string) { l.loop.Add(kube.Key{Name: name}) }
	p.view.workspaces.OnChange(func(old, w *management.FleetWorkspace) {
		if w == nil {
			l.clear(old)
		}
		wake(orOld(old, w).Name)
	})
	p.view.namespaces.OnChange(func(old, ns *meta) { wake(orOld(old, ns).Name) })
	p.view.clusters.OnChange(func(old, c *fleet.Cluster) { onCreateOrDelete(old, c, func(c *fleet.Cluster) { wake(c.Namespace) }) })
	p.view.bundles.OnChange(func(old, b *meta) { onCreateOrDelete(old, b, func(b *meta) { wake(b.Namespace) }) })
	p.view.provisioning.OnChange(func(old, p *provisioning.Cluster) {
		onCreateOrDelete(old, p, func(p *provisioning.Cluster) { wake(p.Namespace) })
	})
	p.view.management.OnChange(func(old, m *management.Cluster) {
		if old != nil && m != nil && old.Spec.FleetWorkspaceName == m.Spec.FleetWorkspaceName && (old.DeletionTimestamp == nil) == (m.DeletionTimestamp == nil) {
			return
		}
		for _, m := range []*management.Cluster{old, m} {
			if m != nil && m.Spec.FleetWorkspaceName != "" {
				wake(m.Spec.FleetWorkspaceName)
			}
		}
	})
	if capi.cache != nil {
		capi.cache.OnChange(func(old, c *meta) { onCreateOrDelete(old, c, func(c *meta) { wake(c.Namespace) }) })
	}
	return l
}

// enqueueAll enqueues all objects of the loop.
func (l *namespaceLoop) enqueueAll() {
	if l == nil {
		return
	}
	for _, w := range l.view.workspaces.List("") {
		l.loop.Add(kube.KeyOf(w))
	}
	for _, ns := range l.view.namespaces.List("") {
		l.loop.Add(kube.KeyOf(ns)) // its workspace may be gone
	}
}

// onCreateOrDelete calls f for created and deleted objects.
func onCreateOrDelete[T any](old, changed *T, f func(*T)) {
	if old == nil || changed == nil {
		f(orOld(old, changed))
	}
}

// Reconcile brings the namespace of one workspace in line with it. While Rancher
// does that, only the guard of the workspace is kept.
//
//  1. gather: the FleetWorkspace, its Namespace, the clusters in it
//  2. decide: plan.DecideNamespace, Deletable, TakesNamespace, Leftover, ForOrphan, Guarded (pure)
//  3. apply:  the Namespace, our finalizer
//  4. report: an annotation and an event where something is refused
func (l *namespaceLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	part := l.part.get()
	if part == plan.Sleep {
		return kube.Done, nil
	}
	w, ok := l.view.workspaces.Get(key)
	ns, there := l.view.namespaces.Get(key)
	if !there {
		ns = nil
	}
	if ok || !there {
		l.missing.forget(key)
	}
	switch {
	case ok && w.DeletionTimestamp != nil:
		return l.handleDeletion(ctx, w, ns)
	case ok && part == plan.Observe:
		return kube.Done, l.ensureFinalizer(ctx, w)
	case part == plan.Observe:
		return kube.Done, nil
	case !ok:
		return l.reconcileOrphan(ctx, key, ns)
	}
	action, why := plan.DecideNamespace(w, ns)
	switch action {
	case plan.Refuse:
		return kube.Done, l.reportRefused(ctx, w, reasonRefused, why)
	case plan.Leave:
		return kube.Done, l.clearRefused(ctx, w)
	}
	if !slices.Contains(w.Finalizers, plan.Finalizer) { // before anything is made
		return kube.Done, l.setFinalizers(ctx, w, append(slices.Clone(w.Finalizers), plan.Finalizer))
	}
	if err := l.writeNamespace(ctx, w, plan.Namespace(w, action), ns); err != nil {
		return kube.Done, err
	}
	return kube.Done, l.clearRefused(ctx, w)
}

// writeNamespace writes the Namespace of a workspace if it differs from the desired
// one.
func (l *namespaceLoop) writeNamespace(ctx context.Context, w *management.FleetWorkspace, want *corev1.Namespace, live *meta) error {
	digest, err := plan.Digest(want)
	if err != nil {
		return err
	}
	want.Annotations[plan.AnnotationMapped] = digest
	if live != nil {
		type body struct{ Labels, Annotations map[string]string }
		same, err := plan.HasFields(body{live.Labels, live.Annotations}, body{want.Labels, want.Annotations})
		if err != nil || same || live.DeletionTimestamp != nil || plan.IsRancherManaged(l.mode, live.Annotations) {
			return err
		}
	}
	if live == nil {
		if err := l.createNamespace(ctx, want); err != nil {
			return err
		}
	}
	if err := l.applyNamespace(ctx, w, want); err != nil {
		return fmt.Errorf("namespace of workspace %q: %w", want.Name, err)
	}
	l.log.WithField("workspace", want.Name).Info("namespace of workspace written")
	return nil
}

// createNamespace creates the Namespace of a workspace, with the mark of its origin only.
// The cache may not have a namespace yet that exists: to apply to it would give a foreign
// namespace to the workspace. To create it fails then; the watch reports it soon.
func (l *namespaceLoop) createNamespace(ctx context.Context, want *corev1.Namespace) error {
	_, err := l.namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: want.Name, Annotations: map[string]string{plan.AnnotationOrigin: want.Annotations[plan.AnnotationOrigin]},
	}})
	if kube.IsExists(err) {
		return reconcile.RequeueError(fleet.ReasonProgressing, namespaceLag, fmt.Errorf("namespace %q exists already", want.Name))
	}
	if err != nil {
		return fmt.Errorf("namespace of workspace %q: %w", want.Name, err)
	}
	return nil
}

// applyNamespace writes a Namespace. If the API server refuses that, it omits the
// labels that restrict pods, and reports that: Rancher's webhook requires a right for
// them that neither the manager nor the author of the workspace needs to have.
func (l *namespaceLoop) applyNamespace(ctx context.Context, w *management.FleetWorkspace, want *corev1.Namespace) error {
	_, err := l.namespaces.Apply(ctx, want)
	if err == nil || !kube.IsDenied(err) && !kube.IsForbidden(err) {
		return err
	}
	left := plan.LeaveOutPodSecurity(want)
	if len(left) == 0 {
		return err
	}
	if _, without := l.namespaces.Apply(ctx, want); without != nil {
		return without
	}
	l.report(w, reasonLabels, fmt.Sprintf("namespace %q is without %s, which the manager may not set (%v): who may do that labels the namespace",
		want.Name, strings.Join(left, ", "), err))
	return nil
}

// reconcileOrphan handles a namespace without a FleetWorkspace. A namespace with
// clusters or bundles gets one. An empty namespace that the manager has created for a
// workspace is deleted when the workspace has been missing for long.
func (l *namespaceLoop) reconcileOrphan(ctx context.Context, key kube.Key, ns *meta) (kube.Result, error) {
	if ns == nil || ns.DeletionTimestamp != nil {
		return kube.Done, nil
	}
	held, known := l.clustersOf(ns.Name)
	bundles := len(l.view.bundles.List(ns.Name))
	if len(held.Provisioning)+len(held.Fleet)+bundles > 0 {
		l.missing.forget(key)
		return kube.Done, l.restoreWorkspace(ctx, ns)
	}
	if !known || len(held.Names()) > 0 || !plan.TakesNamespace(plan.RequestedWorkspace(ns.Name), ns) {
		l.missing.forget(key)
		return kube.Done, nil
	}
	if left := plan.Leftover(l.missing.missingFor(key)); left > 0 {
		return kube.Result{After: left}, nil
	}
	if _, err := l.workspaces.Get(ctx, key); !kube.IsGone(err) {
		return kube.Done, err // by the API server, not the cache
	}
	repos, err := l.repos.List(ctx, ns.Name, "") // GitRepos may have no Bundles yet
	if err != nil {
		return kube.Done, err
	}
	if len(repos) > 0 {
		return kube.Done, l.restoreWorkspace(ctx, ns)
	}
	l.log.WithField(keyWorkspace, ns.Name).WithField("reason", "its workspace was deleted while nobody looked").Info("namespace of workspace deleted")
	return kube.Done, l.namespaces.Delete(ctx, key, kube.Precondition{UID: ns.UID})
}

// restoreWorkspace creates the FleetWorkspace of a namespace that has none, if it may
// have one.
func (l *namespaceLoop) restoreWorkspace(ctx context.Context, ns *meta) error {
	w := plan.ForOrphan(ns)
	if w == nil {
		return nil
	}
	if _, err := l.workspaces.Create(ctx, w); err != nil && !kube.IsExists(err) {
		return fmt.Errorf("workspace of namespace %q: %w", ns.Name, err)
	}
	return nil
}

// setFinalizers patches the finalizers of a FleetWorkspace.
func (l *namespaceLoop) setFinalizers(ctx context.Context, w *management.FleetWorkspace, list []string) error {
	changed := w.DeepCopy()
	changed.Finalizers = list
	_, err := l.workspaces.Patch(ctx, w, changed)
	return err
}
