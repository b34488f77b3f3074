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

// creatorLoop gives who has made a workspace the rights in it, and keeps the roles
// that such rights are made of. Its keys are names of workspaces, and standingKey.
type creatorLoop struct {
	sayer
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
		sayer: sayer{log: p.log, events: p.events, key: keyWorkspace}, ownedKinds: newOwnedKinds(c, p.mode), part: p.part, view: p.view,
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
		comesOrGoes(old, r, func(*rbacv1.ClusterRole) { l.loop.Add(standingKey) })
	})
	p.view.workspaces.OnChange(func(old, w *management.FleetWorkspace) {
		if w == nil {
			l.silent(old)
		}
		l.loop.Add(kube.Key{Name: either(old, w).Name})
	})
	p.view.namespaces.OnChange(func(old, ns *meta) { l.loop.Add(kube.Key{Name: either(old, ns).Name}) })
	return l
}

// watch enqueues the workspace that a right of its creator belongs to.
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

func (l *creatorLoop) parts() []kube.Runner {
	return []kube.Runner{l.ownRoles, l.ownEverywhere, l.ownBindings, l.offered, l.loop}
}

// wake lets the loop look at everything, also at rights of workspaces that are gone.
func (l *creatorLoop) wake() {
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
//  2. decide: plan.For, OfCreator (pure)
//  3. apply:  roles, then bindings; what is no longer desired is deleted
//  4. report: an event where a name is taken
func (l *creatorLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.part.maps() || key.Name == "" {
		return kube.Done, nil
	}
	if key == standingKey {
		return kube.Done, l.standing(ctx)
	}
	w, ok := l.view.workspaces.Get(key)
	ns, there := l.view.namespaces.Get(key)
	var want plan.Rights
	if ok {
		switch {
		case w.DeletionTimestamp != nil:
			return kube.Done, nil // they go with it, not before: it may be held
		case !there, ns.DeletionTimestamp != nil:
			return kube.Done, nil // the namespace wakes this up
		}
		if action, _ := plan.For(w, ns); action == plan.Create || action == plan.Adopt {
			want = plan.OfCreator(w)
		}
	}
	err := l.settle(ctx, want, plan.Rights{
		ClusterRoles:        l.ownRoles.ByIndex(byWorkspace, key.Name),
		ClusterRoleBindings: l.ownEverywhere.ByIndex(byWorkspace, key.Name),
		RoleBindings:        l.ownBindings.ByIndex(byWorkspace, key.Name),
	})
	var other *taken
	if errors.As(err, &other) && ok {
		l.say(w, reasonTaken, other.Error())
		return kube.Done, nil
	}
	if err == nil && ok {
		l.silent(w)
	}
	return kube.Done, err
}

// standing makes the roles that belong to no workspace. Rancher's own three are
// made where they are missing, and never changed; ours are kept as they should be.
func (l *creatorLoop) standing(ctx context.Context) error {
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
	err := l.settle(ctx, plan.Rights{ClusterRoles: plan.OwnRoles()}, plan.Rights{ClusterRoles: live})
	var other *taken
	if errors.As(err, &other) {
		l.log.WithField("reason", other.Error()).Warn("role left as it is")
		return nil
	}
	return err
}
