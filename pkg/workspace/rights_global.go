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

// globalLoop gives those who are bound to GlobalRoles their rights in workspaces.
// Its keys are names of GlobalRoles.
type globalLoop struct {
	ownedKinds
	part     *part
	view     *caches
	reported sayer
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
		ownedKinds: newOwnedKinds(c, p.mode), part: p.part, view: p.view, reported: sayer{log: p.log, events: p.events}, open: map[string]bool{},
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
	l.wakeUps()
	return l
}

// look wakes every role up if a workspace has opened or closed. held is true where
// something has just come into it.
func (l *globalLoop) look(name string, held bool) {
	is := l.opens(name, held)
	l.mu.Lock()
	was := l.open[name]
	if is {
		l.open[name] = true
	} else {
		delete(l.open, name)
	}
	l.mu.Unlock()
	if is != was {
		l.wake()
	}
}

func (l *globalLoop) opens(name string, held bool) bool {
	w, ok := l.view.workspaces.Get(kube.Key{Name: name})
	if !ok {
		return false
	}
	ns, ok := l.view.namespaces.Get(kube.Key{Name: name})
	if !ok {
		return false
	}
	return plan.Opens(w, ns, held || len(l.view.clusters.List(name)) > 0 || len(l.view.bundles.List(name)) > 0)
}

// openWorkspaces are those in which GlobalRoles give rights.
func (l *globalLoop) openWorkspaces() []string {
	var out []string
	for _, w := range l.view.workspaces.List("") {
		if l.opens(w.Name, false) {
			out = append(out, w.Name)
		}
	}
	return out
}

func (l *globalLoop) wakeUps() {
	v := l.view
	v.workspaces.OnChange(func(old, w *management.FleetWorkspace) { l.look(either(old, w).Name, false) })
	v.namespaces.OnChange(func(old, ns *meta) { l.look(either(old, ns).Name, false) })
	v.clusters.OnChange(func(old, c *fleet.Cluster) {
		comesOrGoes(old, c, func(o *fleet.Cluster) { l.look(o.Namespace, old == nil) })
	})
	v.bundles.OnChange(func(old, b *meta) { comesOrGoes(old, b, func(o *meta) { l.look(o.Namespace, old == nil) }) })
	l.global.OnChange(func(old, r *management.GlobalRole) {
		if r == nil {
			l.reported.silent(old)
		}
		l.loop.Add(kube.Key{Name: either(old, r).Name})
	})
	l.grants.OnChange(func(old, b *management.GlobalRoleBinding) {
		for _, o := range []*management.GlobalRoleBinding{old, b} {
			if o != nil {
				l.loop.Add(kube.Key{Name: o.GlobalRoleName})
			}
		}
	})
	l.haveRoles.OnChange(func(old, r *rbacv1.ClusterRole) { l.ofRole(either(old, r).Name) })
	l.haveEverywhere.OnChange(func(old, b *rbacv1.ClusterRoleBinding) { l.ofRole(either(old, b).RoleRef.Name) })
	l.haveBindings.OnChange(func(old, b *rbacv1.RoleBinding) { l.ofRole(either(old, b).RoleRef.Name) })
}

// ofRole enqueues the GlobalRole that a ClusterRole belongs to, by its name; also one
// that is gone. A name that was shortened does not contain the role: then all
// GlobalRoles are enqueued.
func (l *globalLoop) ofRole(name string) {
	for _, end := range plan.RoleEnds() {
		if role, ok := strings.CutSuffix(name, "-"+end); ok {
			l.loop.Add(kube.Key{Name: role})
			return
		}
	}
	if plan.Shortened(name) {
		l.wake()
	}
}

func (l *globalLoop) parts() []kube.Runner {
	return []kube.Runner{l.global, l.grants, l.haveRoles, l.haveEverywhere, l.haveBindings, l.loop}
}

// wake lets the loop look at everything, also at rights of roles that are gone.
func (l *globalLoop) wake() {
	for _, r := range l.global.List("") {
		l.loop.Add(kube.KeyOf(r))
	}
	for _, r := range l.haveRoles.List("") {
		l.loop.Add(kube.Key{Name: r.Labels[plan.LabelRoleOwner]})
	}
	for _, b := range l.haveBindings.List("") {
		l.ofGone(b.RoleRef.Name)
	}
	for _, b := range l.haveEverywhere.List("") {
		l.ofGone(b.RoleRef.Name)
	}
}

func (l *globalLoop) ofGone(name string) {
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
	if !l.part.maps() || l.part.givesRights() || key.Name == "" {
		return kube.Done, nil
	}
	r, ok := l.global.Get(key)
	var want plan.Rights
	if ok && r.DeletionTimestamp == nil {
		want = plan.OfRole(r, l.grants.ByIndex(byGlobalRole, r.Name), l.openWorkspaces())
	}
	err := l.settle(ctx, want, l.have(key.Name))
	var other *taken
	switch {
	case !ok || err != nil && !errors.As(err, &other) && !kube.IsForbidden(err):
		return kube.Done, err
	case err == nil:
		l.reported.silent(r)
		return kube.Done, nil
	case other != nil:
		l.reported.say(r, reasonTaken, other.Error())
		return kube.Done, nil
	}
	l.reported.say(r, reasonUnready, fmt.Sprintf("inheritedFleetWorkspacePermissions of GlobalRole %q: %v", r.Name, err))
	return kube.Done, err
}

// have are the rights of a GlobalRole that are there.
func (l *globalLoop) have(globalRole string) plan.Rights {
	in, on := plan.RoleNames(globalRole)
	out := plan.Rights{ClusterRoleBindings: l.haveEverywhere.ByIndex(byGiven, on), RoleBindings: l.haveBindings.ByIndex(byGiven, in)}
	for _, name := range []string{in, on} {
		if r, ok := l.haveRoles.Get(kube.Key{Name: name}); ok && plan.RoleOwnedBy(r, globalRole) {
			out.ClusterRoles = append(out.ClusterRoles, r)
		}
	}
	return out
}
