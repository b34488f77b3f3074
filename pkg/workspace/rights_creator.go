package workspace

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// standingKey is the key of the roles that belong to no workspace. No workspace
// has such a name.
var standingKey = kube.Key{Name: "standing roles"}

// A creatorLoop gives the creator of a workspace the rights in it, and maintains the
// roles for that. Its keys are names of workspaces, and standingKey.
type creatorLoop struct {
	eventReporter
	ownedKinds
	part *part
	view *caches
	loop *kube.Controller

	// Our own objects; and among roles those that Rancher's UI offers: its three roles
	// are not ours and must exist.
	ownRoles      *kube.Cache[*rbacv1.ClusterRole]
	ownEverywhere *kube.Cache[*rbacv1.ClusterRoleBinding]
	ownBindings   *kube.Cache[*rbacv1.RoleBinding]
	offered       *kube.Cache[*rbacv1.ClusterRole]
}

// byWorkspace is the index of rights by the workspace whose maker has them.
const byWorkspace = "workspace"

func newCreatorLoop(p ports) *creatorLoop {
	c := p.client.Loop("workspace-rights")
	ours := kube.Watch{Labels: plan.LabelRights}
	l := &creatorLoop{
		eventReporter: eventReporter{log: p.log, events: p.events, key: keyWorkspace}, ownedKinds: newOwnedKinds(c, p.mode), part: p.part, view: p.view,
		ownRoles:      kube.NewCache(c, ours, func(r *rbacv1.ClusterRole) { stripRights(r) }),
		ownEverywhere: kube.NewCache(c, ours, func(b *rbacv1.ClusterRoleBinding) { stripRights(b) }),
		ownBindings:   kube.NewCache(c, ours, func(b *rbacv1.RoleBinding) { stripRights(b) }),
		offered:       kube.NewCache(c, kube.Watch{Labels: plan.LabelProduct + "=" + plan.Product}, func(r *rbacv1.ClusterRole) { stripRights(r) }),
	}
	l.loop = kube.NewController("workspace-rights", 2, l.Reconcile)
	watch(l, l.ownRoles)
	watch(l, l.ownEverywhere)
	watch(l, l.ownBindings)
	l.offered.OnChange(func(old, r *rbacv1.ClusterRole) {
		onCreateOrDelete(old, r, func(*rbacv1.ClusterRole) { l.loop.Add(standingKey) })
	})
	p.view.workspaces.OnChange(func(old, w *management.FleetWorkspace) {
		if w == nil {
			l.clear(old)
		}
		l.loop.Add(kube.Key{Name: orOld(old, w).Name})
	})
	p.view.namespaces.OnChange(func(old, ns *meta) { l.loop.Add(kube.Key{Name: orOld(old, ns).Name}) })
	return l
}

// watch makes changes of the creator's rights enqueue their workspace.
func watch[P kube.Object](l *creatorLoop, c *kube.Cache[P]) {
	c.Index(byWorkspace, func(o P) []string { return []string{o.GetLabels()[plan.LabelWorkspace]} })
	wake := func(o P) {
		if o.GetLabels()[plan.LabelRights] == plan.RightsStanding {
			l.loop.Add(standingKey)
			return
		}
		l.loop.Add(kube.Key{Name: o.GetLabels()[plan.LabelWorkspace]})
	}
	var none P
	c.OnChange(func(old, changed P) {
		if kube.Object(changed) == kube.Object(none) {
			changed = old
		}
		wake(changed)
	})
}

func (l *creatorLoop) runnables() []kube.Runner {
	return []kube.Runner{l.ownRoles, l.ownEverywhere, l.ownBindings, l.offered, l.loop}
}

// enqueueAll enqueues all workspaces, and the rights of deleted ones.
func (l *creatorLoop) enqueueAll() {
	l.loop.Add(standingKey)
	for _, w := range l.view.workspaces.List("") {
		l.loop.Add(kube.KeyOf(w))
	}
	for _, r := range l.ownRoles.List("") {
		l.loop.Add(kube.Key{Name: r.Labels[plan.LabelWorkspace]})
	}
	for _, b := range l.ownEverywhere.List("") {
		l.loop.Add(kube.Key{Name: b.Labels[plan.LabelWorkspace]})
	}
	for _, b := range l.ownBindings.List("") {
		l.loop.Add(kube.Key{Name: b.Labels[plan.LabelWorkspace]})
	}
}

// Reconcile brings the rights of the creator of one workspace in line with it.
//
//  1. gather: the FleetWorkspace, its Namespace, the rights that are there
//  2. decide: plan.DecideNamespace, OfCreator (pure)
//  3. apply:  roles, then bindings; what is no longer desired is deleted
//  4. report: an event where a name is taken
func (l *creatorLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.part.managerMaps() || key.Name == "" {
		return kube.Done, nil
	}
	if key == standingKey {
		return kube.Done, l.ensureGlobalRoles(ctx)
	}
	w, ok := l.view.workspaces.Get(key)
	ns, there := l.view.namespaces.Get(key)
	var want plan.Rights
	if ok {
		switch {
		case w.DeletionTimestamp != nil:
			return kube.Done, nil // the rights are deleted with the namespace, which may be held
		case !there, ns.DeletionTimestamp != nil:
			return kube.Done, nil // an event of the namespace enqueues the workspace
		}
		if action, _ := plan.DecideNamespace(w, ns); action == plan.Create || action == plan.Adopt {
			want = plan.OfCreator(w)
		}
	}
	err := l.apply(ctx, want, plan.Rights{
		ClusterRoles:        l.ownRoles.ByIndex(byWorkspace, key.Name),
		ClusterRoleBindings: l.ownEverywhere.ByIndex(byWorkspace, key.Name),
		RoleBindings:        l.ownBindings.ByIndex(byWorkspace, key.Name),
	})
	var other *nameTaken
	if errors.As(err, &other) && ok {
		l.report(w, reasonTaken, other.Error())
		return kube.Done, nil
	}
	if err == nil && ok {
		l.clear(w)
	}
	return kube.Done, err
}

// ensureGlobalRoles creates the roles that belong to no workspace. It creates Rancher's
// three roles if they are missing, and does not change them. It repairs the manager's
// roles.
func (l *creatorLoop) ensureGlobalRoles(ctx context.Context) error {
	for _, r := range plan.BaseRoles() {
		if _, ok := l.offered.Get(kube.KeyOf(r)); ok {
			continue
		}
		if _, err := l.roles.store.Create(ctx, r); err != nil && !kube.IsExists(err) {
			return err
		}
	}
	live := make([]*rbacv1.ClusterRole, 0, len(plan.OwnRoles()))
	for _, r := range l.ownRoles.ByIndex(byWorkspace, "") {
		if r.Labels[plan.LabelRights] == plan.RightsStanding {
			live = append(live, r)
		}
	}
	err := l.apply(ctx, plan.Rights{ClusterRoles: plan.OwnRoles()}, plan.Rights{ClusterRoles: live})
	var other *nameTaken
	if errors.As(err, &other) {
		l.log.WithField("reason", other.Error()).Warn("role left as it is")
		return nil
	}
	return err
}
