package workspace

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// finalizer keeps a FleetWorkspace until its namespace has gone, or stays for good
// reason.
const finalizer = "fleet.cattle.io/workspace"

// Reasons of events of FleetWorkspaces.
const (
	reasonRefused = "NamespaceRefused"
	reasonHeld    = "DeletionRefused"
)

// spaceLoop makes the namespaces of workspaces, and workspaces of namespaces that
// have clusters or bundles. Its keys are names of both.
type spaceLoop struct {
	*stage
	loop       *kube.Loop
	workspaces *kube.Store[*management.FleetWorkspace]
	namespaces *kube.Store[*corev1.Namespace]
	roles      *kube.Store[*rbacv1.ClusterRole]
	everywhere *kube.Store[*rbacv1.ClusterRoleBinding]
	bindings   *kube.Store[*rbacv1.RoleBinding]
	said       sync.Map // of each workspace, by its UID: what was said last
}

func newSpaceLoop(s *stage, c *kube.Client) *spaceLoop {
	l := &spaceLoop{
		stage: s, workspaces: kube.StoreOf[*management.FleetWorkspace](c), namespaces: kube.StoreOf[*corev1.Namespace](c),
		roles: kube.StoreOf[*rbacv1.ClusterRole](c), everywhere: kube.StoreOf[*rbacv1.ClusterRoleBinding](c), bindings: kube.StoreOf[*rbacv1.RoleBinding](c),
	}
	l.loop = kube.NewLoop("workspaces", 2, l.Reconcile)
	wake := func(name string) { l.loop.Add(kube.Key{Name: name}) }
	s.view.workspaces.OnChange(func(old, w *management.FleetWorkspace) {
		if w == nil {
			l.said.Delete(old.UID)
		}
		wake(either(old, w).Name)
	})
	s.view.namespaces.OnChange(func(old, ns *meta) { wake(either(old, ns).Name) })
	s.view.clusters.OnChange(func(old, c *fleet.Cluster) { comesOrGoes(old, c, func(c *fleet.Cluster) { wake(c.Namespace) }) })
	s.view.bundles.OnChange(func(old, b *meta) { comesOrGoes(old, b, func(b *meta) { wake(b.Namespace) }) })
	s.view.provisioning.OnChange(func(old, p *provisioning.Cluster) {
		comesOrGoes(old, p, func(p *provisioning.Cluster) { wake(p.Namespace) })
	})
	return l
}

// comesOrGoes calls f for objects that come or go, not for those that change.
func comesOrGoes[T any](old, changed *T, f func(*T)) {
	if old == nil || changed == nil {
		f(either(old, changed))
	}
}

// Reconcile brings the namespace of one workspace in line with it.
//
//  1. gather: the FleetWorkspace, its Namespace, the clusters in it
//  2. decide: plan.For, Deletable, TakesNamespace, ForOrphan (pure)
//  3. apply:  the Namespace, the rights of who has made the workspace
//  4. report: an event where something is refused
func (l *spaceLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Next, error) {
	if !l.maps() {
		return kube.Done, nil
	}
	w, ok := l.view.workspaces.Get(key)
	ns, there := l.view.namespaces.Get(key)
	if !there {
		ns = nil
	}
	switch {
	case !ok:
		return kube.Done, l.orphan(ctx, ns)
	case w.DeletionTimestamp != nil:
		return kube.Done, l.leave(ctx, w, ns)
	}
	action, why := plan.For(w, ns)
	switch action {
	case plan.Refuse:
		l.say(w, reasonRefused, why)
		return kube.Done, nil
	case plan.Leave:
		return kube.Done, nil
	}
	if !slices.Contains(w.Finalizers, finalizer) { // before anything is made
		return kube.Done, l.finalizers(ctx, w, append(slices.Clone(w.Finalizers), finalizer))
	}
	if err := l.put(ctx, plan.Namespace(w, action), ns); err != nil {
		return kube.Done, err
	}
	return kube.Done, l.rights(ctx, w, ns)
}

// put writes a Namespace if it does not say what it should.
func (l *spaceLoop) put(ctx context.Context, want *corev1.Namespace, live *meta) error {
	digest, err := plan.Digest(want)
	if err != nil {
		return err
	}
	want.Annotations[plan.AnnotationMapped] = digest
	if live != nil {
		type body struct{ Labels, Annotations map[string]string }
		same, err := plan.Holds(body{live.Labels, live.Annotations}, body{want.Labels, want.Annotations})
		if err != nil || same || live.DeletionTimestamp != nil {
			return err
		}
	}
	if _, err := l.namespaces.Apply(ctx, want); err != nil {
		return fmt.Errorf("namespace of workspace %q: %w", want.Name, err)
	}
	l.log.WithField("workspace", want.Name).Info("namespace of workspace written")
	return nil
}

// rights gives who has made a workspace its rights, once it has a namespace. What
// is there already is left as it is.
func (l *spaceLoop) rights(ctx context.Context, w *management.FleetWorkspace, ns *meta) error {
	if ns == nil {
		return nil // it wakes this up
	}
	rights := plan.OfCreator(w)
	for _, r := range rights.ClusterRoles {
		if err := makeOnce(ctx, l.roles, r); err != nil {
			return err
		}
	}
	for _, b := range rights.ClusterRoleBindings {
		if err := makeOnce(ctx, l.everywhere, b); err != nil {
			return err
		}
	}
	for _, b := range rights.RoleBindings {
		if err := makeOnce(ctx, l.bindings, b); err != nil {
			return err
		}
	}
	return nil
}

// makeOnce makes an object that is not there.
func makeOnce[P kube.Object](ctx context.Context, s *kube.Store[P], obj P) error {
	if _, err := s.Get(ctx, kube.KeyOf(obj)); !kube.IsGone(err) {
		return err
	}
	if _, err := s.Create(ctx, obj); err != nil && !kube.IsExists(err) {
		return err
	}
	return nil
}

// leave lets a workspace go that somebody deletes: not with the clusters in it,
// and with its namespace only if that was made for it.
func (l *spaceLoop) leave(ctx context.Context, w *management.FleetWorkspace, ns *meta) error {
	if !slices.Contains(w.Finalizers, finalizer) {
		return nil
	}
	if ok, why := plan.Deletable(w, l.clustersIn(w.Name)); !ok {
		l.say(w, reasonHeld, why)
		return nil
	}
	if plan.TakesNamespace(w, ns) {
		if ns.DeletionTimestamp == nil {
			return l.namespaces.Delete(ctx, kube.KeyOf(ns), kube.Precondition{UID: ns.UID})
		}
		return nil // its end wakes this up
	}
	return l.finalizers(ctx, w, slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == finalizer }))
}

// orphan deals with a namespace without a workspace: one that we had made for one
// goes if it holds no cluster; one with clusters or bundles becomes a workspace.
func (l *spaceLoop) orphan(ctx context.Context, ns *meta) error {
	if ns == nil || ns.DeletionTimestamp != nil {
		return nil
	}
	held := l.clustersIn(ns.Name)
	gone := &management.FleetWorkspace{}
	gone.Name = ns.Name
	if plan.TakesNamespace(gone, ns) && len(held) == 0 {
		l.log.WithField("workspace", ns.Name).Info("the workspace was deleted while nobody looked: its namespace goes")
		return l.namespaces.Delete(ctx, kube.KeyOf(ns), kube.Precondition{UID: ns.UID})
	}
	if len(held) == 0 && len(l.view.bundles.List(ns.Name)) == 0 {
		return nil
	}
	if w := plan.ForOrphan(ns); w != nil {
		_, err := l.workspaces.Create(ctx, w)
		if err != nil && !kube.IsExists(err) {
			return fmt.Errorf("workspace of namespace %q: %w", ns.Name, err)
		}
	}
	return nil
}

// clustersIn are the clusters of a workspace.
func (l *spaceLoop) clustersIn(namespace string) []string {
	var out []string
	for _, p := range l.view.provisioning.List(namespace) {
		out = append(out, "Cluster "+p.Name)
	}
	for _, c := range l.view.clusters.List(namespace) {
		if name := "Cluster " + c.Name; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (l *spaceLoop) finalizers(ctx context.Context, w *management.FleetWorkspace, list []string) error {
	changed := w.DeepCopy()
	changed.Finalizers = list
	_, err := l.workspaces.Patch(ctx, w, changed)
	return err
}

// say tells once what is refused.
func (l *spaceLoop) say(w *management.FleetWorkspace, reason, text string) {
	if was, ok := l.said.Swap(w.UID, text); ok && was == text {
		return
	}
	l.events.Event(w, kube.Warning, reason, text)
	l.log.WithField("workspace", w.Name).WithField("reason", reason).Warn(text)
}
