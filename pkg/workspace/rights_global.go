package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Kinds without which there are no global roles.
const (
	kindGlobalRole  = "globalroles.management.cattle.io"
	kindGlobalGrant = "globalrolebindings.management.cattle.io"
)

// Indexes of the caches of global roles.
const (
	byGlobalRole = "globalrole" // GlobalRoleBindings: the GlobalRole
	byGiven      = "given"      // bindings: the ClusterRole
)

// A globalLoop gives users with GlobalRoles their rights in workspaces. Its keys are
// names of GlobalRoles.
type globalLoop struct {
	ownedKinds
	part     *part
	view     *caches
	reported eventReporter
	loop     *kube.Controller

	global *kube.Cache[*management.GlobalRole]
	grants *kube.Cache[*management.GlobalRoleBinding]

	haveRoles      *kube.Cache[*rbacv1.ClusterRole]
	haveEverywhere *kube.Cache[*rbacv1.ClusterRoleBinding]
	haveBindings   *kube.Cache[*rbacv1.RoleBinding]

	mu   sync.Mutex
	open map[string]bool // workspaces for which plan.Opens was true last
}

func newGlobalLoop(p ports) *globalLoop {
	c := p.client.Loop("global-roles")
	l := &globalLoop{
		ownedKinds: newOwnedKinds(c, p.mode), part: p.part, view: p.view, reported: eventReporter{log: p.log, events: p.events}, open: map[string]bool{},
		global:         kube.NewCache[*management.GlobalRole](c, kube.Watch{}, nil),
		grants:         kube.NewCache[*management.GlobalRoleBinding](c, kube.Watch{}, nil),
		haveRoles:      kube.NewCache(c, kube.Watch{Labels: plan.LabelRoleOwner}, func(r *rbacv1.ClusterRole) { stripRights(r) }),
		haveEverywhere: kube.NewCache(c, kube.Watch{Labels: plan.LabelGrantOwner}, func(b *rbacv1.ClusterRoleBinding) { stripRights(b) }),
		haveBindings:   kube.NewCache(c, kube.Watch{Labels: plan.LabelPermissions}, func(b *rbacv1.RoleBinding) { stripRights(b) }),
	}
	l.loop = kube.NewController("global-roles", 2, l.Reconcile)
	l.grants.Index(byGlobalRole, func(b *management.GlobalRoleBinding) []string { return []string{b.GlobalRoleName} })
	l.haveEverywhere.Index(byGiven, func(b *rbacv1.ClusterRoleBinding) []string { return []string{b.RoleRef.Name} })
	l.haveBindings.Index(byGiven, func(b *rbacv1.RoleBinding) []string { return []string{b.RoleRef.Name} })
	l.addHandlers()
	return l
}

// onWorkspace enqueues every role if a workspace has become one in which GlobalRoles
// give rights, or has ceased to be one. held is true if an object was created in it.
func (l *globalLoop) onWorkspace(name string, held bool) {
	is := l.isOpen(name, held)
	l.mu.Lock()
	was := l.open[name]
	if is {
		l.open[name] = true
	} else {
		delete(l.open, name)
	}
	l.mu.Unlock()
	if is != was {
		l.enqueueAll()
	}
}

// isOpen reports whether GlobalRoles give rights in a workspace. held is true if an
// object was created in it, which the caches may lack.
func (l *globalLoop) isOpen(name string, held bool) bool {
	w, ok := l.view.workspaces.Get(kube.Key{Name: name})
	if !ok {
		return false
	}
	ns, ok := l.view.namespaces.Get(kube.Key{Name: name})
	if !ok {
		return false
	}
	return plan.GrantsRights(w, ns, held || len(l.view.clusters.List(name)) > 0 || len(l.view.bundles.List(name)) > 0)
}

// openWorkspaces returns the workspaces in which GlobalRoles give rights.
func (l *globalLoop) openWorkspaces() []string {
	var out []string
	for _, w := range l.view.workspaces.List("") {
		if l.isOpen(w.Name, false) {
			out = append(out, w.Name)
		}
	}
	return out
}

// addHandlers makes changes of objects enqueue the GlobalRoles that they affect.
func (l *globalLoop) addHandlers() {
	v := l.view
	v.workspaces.OnChange(func(old, w *management.FleetWorkspace) { l.onWorkspace(orOld(old, w).Name, false) })
	v.namespaces.OnChange(func(old, ns *meta) { l.onWorkspace(orOld(old, ns).Name, false) })
	v.clusters.OnChange(func(old, c *fleet.Cluster) {
		onCreateOrDelete(old, c, func(o *fleet.Cluster) { l.onWorkspace(o.Namespace, old == nil) })
	})
	v.bundles.OnChange(func(old, b *meta) { onCreateOrDelete(old, b, func(o *meta) { l.onWorkspace(o.Namespace, old == nil) }) })
	l.global.OnChange(func(old, r *management.GlobalRole) {
		if r == nil {
			l.reported.clear(old)
		}
		l.loop.Add(kube.Key{Name: orOld(old, r).Name})
	})
	l.grants.OnChange(func(old, b *management.GlobalRoleBinding) {
		for _, o := range []*management.GlobalRoleBinding{old, b} {
			if o != nil {
				l.loop.Add(kube.Key{Name: o.GlobalRoleName})
			}
		}
	})
	l.haveRoles.OnChange(func(old, r *rbacv1.ClusterRole) { l.enqueueRoleOf(orOld(old, r).Name) })
	l.haveEverywhere.OnChange(func(old, b *rbacv1.ClusterRoleBinding) { l.enqueueRoleOf(orOld(old, b).RoleRef.Name) })
	l.haveBindings.OnChange(func(old, b *rbacv1.RoleBinding) { l.enqueueRoleOf(orOld(old, b).RoleRef.Name) })
}

// enqueueRoleOf enqueues the GlobalRole that a ClusterRole belongs to, by its name; the
// GlobalRole may be deleted. A shortened name does not contain the role: then it
// enqueues all GlobalRoles.
func (l *globalLoop) enqueueRoleOf(name string) {
	for _, end := range plan.RoleEnds() {
		if role, ok := strings.CutSuffix(name, "-"+end); ok {
			l.loop.Add(kube.Key{Name: role})
			return
		}
	}
	if plan.Shortened(name) {
		l.enqueueAll()
	}
}

func (l *globalLoop) runnables() []kube.Runner {
	return []kube.Runner{l.global, l.grants, l.haveRoles, l.haveEverywhere, l.haveBindings, l.loop}
}

// enqueueAll enqueues all roles, and the rights of deleted ones.
func (l *globalLoop) enqueueAll() {
	for _, r := range l.global.List("") {
		l.loop.Add(kube.KeyOf(r))
	}
	for _, r := range l.haveRoles.List("") {
		l.loop.Add(kube.Key{Name: r.Labels[plan.LabelRoleOwner]})
	}
	for _, b := range l.haveBindings.List("") {
		l.enqueueDeleted(b.RoleRef.Name)
	}
	for _, b := range l.haveEverywhere.List("") {
		l.enqueueDeleted(b.RoleRef.Name)
	}
}

// enqueueDeleted enqueues a GlobalRole that does not exist any more.
func (l *globalLoop) enqueueDeleted(name string) {
	for _, end := range plan.RoleEnds() {
		if role, ok := strings.CutSuffix(name, "-"+end); ok {
			l.loop.Add(kube.Key{Name: role})
		}
	}
}

// Reconcile brings the rights of one GlobalRole in line with it.
//
//  1. gather: the GlobalRole, its bindings, the workspaces, the rights there are
//  2. decide: plan.OfRole (pure)
//  3. apply:  roles, then bindings; what is no longer desired is deleted
//  4. report: an event where a name is taken, or Kubernetes refuses a right
func (l *globalLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.part.managerMaps() || l.part.rancherGivesRights() || key.Name == "" {
		return kube.Done, nil
	}
	r, ok := l.global.Get(key)
	var want plan.Rights
	if ok && r.DeletionTimestamp == nil {
		want = plan.OfRole(r, l.grants.ByIndex(byGlobalRole, r.Name), l.openWorkspaces())
	}
	err := l.apply(ctx, want, l.existingRights(key.Name))
	var other *nameTaken
	switch {
	case !ok || err != nil && !errors.As(err, &other) && !kube.IsForbidden(err):
		return kube.Done, err
	case err == nil:
		l.reported.clear(r)
		return kube.Done, nil
	case other != nil:
		l.reported.report(r, reasonTaken, other.Error())
		return kube.Done, nil
	}
	l.reported.report(r, reasonUnready, fmt.Sprintf("inheritedFleetWorkspacePermissions of GlobalRole %q: %v", r.Name, err))
	return kube.Done, err
}

// existingRights returns the existing rights of a GlobalRole.
func (l *globalLoop) existingRights(globalRole string) plan.Rights {
	in, on := plan.RoleNames(globalRole)
	out := plan.Rights{ClusterRoleBindings: l.haveEverywhere.ByIndex(byGiven, on), RoleBindings: l.haveBindings.ByIndex(byGiven, in)}
	for _, name := range []string{in, on} {
		if r, ok := l.haveRoles.Get(kube.Key{Name: name}); ok && plan.RoleOwnedBy(r, globalRole) {
			out.ClusterRoles = append(out.ClusterRoles, r)
		}
	}
	return out
}
