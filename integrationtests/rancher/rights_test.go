package rancher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

type (
	resource = schema.GroupVersionResource
	eventOf  = eventsv1.Event
)

// TestRights checks who may do what in workspaces while Rancher is not there.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(plan.Auto)
	w.rancher.Put(w, rancher.Workspaces, "", fleet.NamespaceLocal, `{"metadata":{"annotations":{"provisioning.cattle.io/managed":"false"}}}`)
	w.workspace("team-a", "")
	w.workspace("team-b", "")
	for _, s := range []struct {
		name   string
		report func(*world)
	}{
		{"21ByGlobalRole", byGlobalRole}, {"21NothingLeaks", nothingLeaks}, {"21Taken", taken}, {"21TakenRole", takenRole}, {"13Creator", creator}, {"13CreatorOfAnother", creatorOfAnother},
		{"21Standing", standing}, {"03DisplayName", displayName}, {"04DefaultWorkspace", defaultWorkspace}, {"09Defaults", schedulingDefaults},
		{"12SettingsRefused", settingsRefused},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.report(w.in(t)) }) {
			return
		}
	}
}

// given are the rights that global roles give, a line for each.
func (w *world) given() []string {
	w.Helper()
	var out []string
	say := func(where, name string, subjects []rbacv1.Subject, role string) {
		for _, s := range subjects {
			out = append(out, fmt.Sprintf("%s %s: %s %s is %s", where, name, strings.ToLower(s.Kind), s.Name, role))
		}
	}
	roles, err := kube.StoreOf[*rbacv1.ClusterRole](w.hub.Admin).List(w.Context(), "", plan.LabelRoleOwner)
	w.must(err)
	for _, r := range roles {
		for _, rule := range r.Rules {
			out = append(out, fmt.Sprintf("%s: %v %v %v", r.Name, rule.Verbs, rule.Resources, rule.ResourceNames))
		}
	}
	everywhere, err := kube.StoreOf[*rbacv1.ClusterRoleBinding](w.hub.Admin).List(w.Context(), "", plan.LabelGrantOwner)
	w.must(err)
	for _, b := range everywhere {
		say("everywhere", b.Name, b.Subjects, b.RoleRef.Name)
	}
	bindings, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).List(w.Context(), "", plan.LabelGrantOwner)
	w.must(err)
	for _, b := range bindings {
		say("in "+b.Namespace, b.Name, b.Subjects, b.RoleRef.Name)
	}
	return out
}

// givenIn are the rights that the roles of the test give in some workspaces.
func givenIn(workspaces ...string) []string {
	all := fmt.Sprint(workspaces)
	out := []string{
		"looks-fwv: [get update] [fleetworkspaces] " + all, "everywhere grb-1-fwv: user ana is looks-fwv",
		"works-fwcr: [create get] [helmops] []", "both-fwcr: [create get] [helmops] []",
		"both-fwv: [get] [fleetworkspaces] " + all, "everywhere grb-3-fwv: group ops is both-fwv",
	}
	for _, ws := range workspaces {
		out = append(out, "in "+ws+" grb-2: user bob is works-fwcr", "in "+ws+" grb-3: group ops is both-fwcr")
	}
	return out
}

// Scenario 21: roles with verbs, with rules, and with both give what they say in
// every workspace, also in one that comes later, and nowhere else.
func byGlobalRole(w *world) {
	w.hub.Namespace(w, "prod")
	for _, name := range []string{"kube-system", "prod"} { // a user who may make workspaces can name them so
		w.rancher.Put(w, rancher.Workspaces, "", name, `{"metadata":{"annotations":{"provisioning.cattle.io/managed":"false"}}}`)
	}
	rules := `"resourceRules":[{"apiGroups":["fleet.cattle.io"],"resources":["helmops"],"verbs":["create","get"]}]`
	w.rancher.Put(w, rancher.GlobalRoles, "", "looks", `{"inheritedFleetWorkspacePermissions":{"workspaceVerbs":["get","update"]}}`)
	w.rancher.Put(w, rancher.GlobalRoles, "", "works", `{"invented":{"a":1},"inheritedFleetWorkspacePermissions":{`+rules+`}}`)
	w.rancher.Put(w, rancher.GlobalRoles, "", "both", `{"inheritedFleetWorkspacePermissions":{"workspaceVerbs":["get"],`+rules+`}}`)
	w.rancher.Put(w, rancher.GlobalRoles, "", "other", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)
	for name, text := range map[string]string{
		"grb-1": `{"globalRoleName":"looks","userName":"ana"}`, "grb-2": `{"globalRoleName":"works","userName":"bob"}`,
		"grb-3": `{"globalRoleName":"both","groupPrincipalName":"ops"}`, "grb-4": `{"globalRoleName":"other","userName":"eve"}`,
	} {
		w.rancher.Put(w, rancher.GlobalRoleBindings, "", name, text)
	}
	w.sees("everybody has the rights", givenIn("team-a", "team-b"), w.given)
	w.workspace("team-c", "")
	w.sees("in a new workspace, too", givenIn("team-a", "team-b", "team-c"), w.given)
	w.answers()

	since := time.Now()
	w.rancher.Patch(w, rancher.GlobalRoles, "", "works", `{"metadata":{"annotations":{"note":"x"}}}`)
	w.rancher.Patch(w, rancher.GlobalRoleBindings, "", "grb-1", `{"metadata":{"annotations":{"note":"x"}}}`)
	w.turns("team-d")
	for _, r := range w.writes(since) {
		if strings.HasPrefix(r.Name, "grb-") && r.Namespace != "team-d" {
			w.Errorf("written for nothing: %s", r)
		}
		if strings.HasPrefix(r.Resource, "global") {
			w.Errorf("objects of Rancher are none of ours: %s", r)
		}
	}
	four := givenIn("team-a", "team-b", "team-c", "team-d")
	w.sees("and in that", four, w.given)
	w.rancher.Patch(w, rancher.RoleBindings, "team-a", "grb-2", `{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}`)
	w.rancher.Delete(w, rancher.RoleBindings, "team-b", "grb-2")
	w.rancher.Patch(w, rancher.ClusterRoles, "", "works-fwcr", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)
	w.sees("what was changed is put back", four, w.given)

	w.rancher.Delete(w, rancher.GlobalRoleBindings, "", "grb-1")
	w.until("who is not bound any more has nothing", func() bool { return !w.may("ana", "update", "fleetworkspaces", "", "team-a") })
	w.rancher.Patch(w, rancher.GlobalRoles, "", "both", `{"inheritedFleetWorkspacePermissions":{"resourceRules":null}}`)
	w.until("rules that are taken back are gone", func() bool {
		return !w.may("zoe", "create", "helmops", "team-a", "", "ops") && w.may("zoe", "get", "fleetworkspaces", "", "team-a", "ops")
	})
	for _, name := range []string{"looks", "works", "both"} {
		w.rancher.Delete(w, rancher.GlobalRoles, "", name)
	}
	w.sees("with its role all is gone", nil, w.given)
}

// answers asks Kubernetes what the roles of the test have given.
func (w *world) answers() {
	w.Helper()
	for _, q := range []struct {
		user, verb, resource, namespace, name string
		want                                  bool
	}{
		{"bob", "create", "helmops", "team-c", "", true},
		{"bob", "delete", "helmops", "team-c", "", false},
		{"bob", "create", "helmops", "prod", "", false},
		{"bob", "create", "helmops", "kube-system", "", false},
		{"bob", "create", "helmops", fleet.NamespaceLocal, "", false},
		{"ana", "update", "fleetworkspaces", "", "team-a", true},
		{"ana", "update", "fleetworkspaces", "", fleet.NamespaceLocal, false},
		{"ana", "update", "fleetworkspaces", "", "prod", false},
		{"ana", "create", "helmops", "team-a", "", false},
		{"eve", "create", "helmops", "team-a", "", false},
	} {
		what := fmt.Sprintf("%s may %s %s in %q %q", q.user, q.verb, q.resource, q.namespace, q.name)
		if q.want { // Kubernetes learns of rights after they were given
			w.until(what, func() bool { return w.may(q.user, q.verb, q.resource, q.namespace, q.name) })
		} else if w.may(q.user, q.verb, q.resource, q.namespace, q.name) {
			w.Error(what)
		}
	}
	w.until("members of a group have its rights", func() bool { return w.may("zoe", "create", "helmops", "team-a", "", "ops") })
}

// Scenario 21, while the manager is stopped: what belongs to a deleted role or
// binding is cleaned up afterwards, also where Kubernetes does not do it; what a
// user has made stays.
func nothingLeaks(w *world) {
	rules := `"resourceRules":[{"apiGroups":["fleet.cattle.io"],"resources":["helmops"],"verbs":["get"]}]`
	for _, name := range []string{"goes", "stays"} {
		w.rancher.Put(w, rancher.GlobalRoles, "", name, `{"inheritedFleetWorkspacePermissions":{"workspaceVerbs":["get"],`+rules+`}}`)
		w.rancher.Put(w, rancher.GlobalRoleBindings, "", "grb-"+name, `{"globalRoleName":"`+name+`","userName":"`+name+`"}`)
	}
	w.rancher.Put(w, rancher.GlobalRoleBindings, "", "grb-unbound", `{"globalRoleName":"stays","userName":"unbound"}`)
	rights := func(user string) bool {
		return w.may(user, "get", "helmops", "team-a", "") && w.may(user, "get", "fleetworkspaces", "", "team-a")
	}
	w.until("all have their rights", func() bool { return rights("goes") && rights("stays") && rights("unbound") })
	harness.Make(w, w.hub, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "by-hand"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "stays-fwcr"},
	})
	w.stop()
	for _, what := range []struct {
		of   resource
		name string
	}{{rancher.GlobalRoles, "goes"}, {rancher.GlobalRoleBindings, "grb-goes"}, {rancher.GlobalRoleBindings, "grb-unbound"}} {
		w.orphan(what.of, what.name)
	}
	w.start(plan.Auto)
	w.until("the rest is gone", func() bool {
		for _, line := range w.given() {
			if strings.Contains(line, "goes") || strings.Contains(line, "unbound") {
				return false
			}
		}
		return true
	})
	if !rights("stays") || !w.there(rancher.RoleBindings, "team-a", "by-hand") {
		w.Error("what is wanted, and what people have made, stays")
	}
	w.rancher.Delete(w, rancher.GlobalRoles, "", "stays")
	w.rancher.Delete(w, rancher.GlobalRoleBindings, "", "grb-stays")
	w.sees("with its role all is gone", nil, w.given)
}

// orphan deletes an object after it has removed the owner references to it, as
// kubectl delete --cascade=orphan does.
func (w *world) orphan(of resource, name string) {
	w.Helper()
	for _, what := range []resource{rancher.ClusterRoles, rancher.ClusterRoleBindings, rancher.RoleBindings} {
		list, err := w.people.Resource(what).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for i := range list.Items {
			o := &list.Items[i]
			if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Name == name }) {
				w.rancher.Patch(w, what, o.GetNamespace(), o.GetName(), `{"metadata":{"ownerReferences":null}}`)
			}
		}
	}
	w.rancher.Delete(w, of, "", name)
	w.until(name+" is gone", func() bool { return w.rancher.Get(w, of, "", name) == nil })
}

// A name that a binding of another client has is left to it, and reported.
func taken(w *world) {
	foreign := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "grb-taken"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "own"},
	}
	before := harness.Make(w, w.hub, foreign)
	w.rancher.Put(w, rancher.GlobalRoles, "", "taken", `{"inheritedFleetWorkspacePermissions":{"resourceRules":[{"apiGroups":["fleet.cattle.io"],"resources":["gitrepos"],"verbs":["get"]}]}}`)
	w.rancher.Put(w, rancher.GlobalRoleBindings, "", "grb-taken", `{"globalRoleName":"taken","userName":"tom"}`)
	w.until("he has his rights where nothing is in the way", func() bool { return w.may("tom", "get", "gitrepos", "team-b", "") })
	w.until("it is said", func() bool { return w.event("GlobalRole", "taken", "RightsNameTaken") })
	if now, ok := harness.Read[*rbacv1.RoleBinding](w, w.hub, "team-a", "grb-taken"); !ok || now.ResourceVersion != before.ResourceVersion {
		w.Errorf("it was touched: %+v", now)
	}
	w.rancher.Delete(w, rancher.GlobalRoles, "", "taken")
	w.until("what was given goes", func() bool { return !w.may("tom", "get", "gitrepos", "team-b", "") })
	if !w.there(rancher.RoleBindings, "team-a", "grb-taken") {
		w.Error("the binding of another client is removed too")
	}
}

// A role of the name that a GlobalRole needs, which bears the mark of another one, is
// that one's: it is neither changed nor deleted.
func takenRole(w *world) {
	before := harness.Make(w, w.hub, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "strange-fwcr", Labels: map[string]string{plan.LabelRoleOwner: "another"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{fleet.Group}, Resources: []string{"bundles"}, Verbs: []string{"get"}}},
	})
	untouched := func() {
		w.Helper()
		if now, ok := harness.Read[*rbacv1.ClusterRole](w, w.hub, "", before.Name); !ok || now.ResourceVersion != before.ResourceVersion {
			w.Errorf("it was touched: %+v", now)
		}
	}
	w.rancher.Put(w, rancher.GlobalRoles, "", "strange", `{"inheritedFleetWorkspacePermissions":{"resourceRules":[{"apiGroups":["fleet.cattle.io"],"resources":["gitrepos"],"verbs":["get"]}]}}`)
	w.until("it is said", func() bool { return w.event("GlobalRole", "strange", "RightsNameTaken") })
	untouched()
	w.rancher.Delete(w, rancher.GlobalRoles, "", "strange")
	w.turns("team-s")
	untouched()
	w.must(kube.StoreOf[*rbacv1.ClusterRole](w.hub.Admin).Delete(w.Context(), kube.KeyOf(before), kube.Precondition{}))
}

// Scenario 13: who makes a workspace may do everything in it, HelmOps and Schedules
// included, and on it; and nothing elsewhere.
func creator(w *world) {
	w.workspace("made", "u-maker")
	w.until("its maker has the rights", func() bool {
		return w.may("u-maker", "create", "helmops", "made", "") && w.may("u-maker", "patch", "fleetworkspaces", "", "made")
	})
	for _, q := range []struct {
		verb, resource, namespace, name string
		want                            bool
	}{
		{"create", "gitrepos", "made", "", true},
		{"delete", "schedules", "made", "", true},
		{"patch", "policies", "made", "", true},
		{"create", "imagescans", "made", "", true},
		{"create", "rolebindings", "made", "", true},
		{"get", "bundledeployments", "made", "", true},
		{"patch", "bundledeployments", "made", "", false},
		{"create", "bundlenamespacemappings", "made", "", false},
		{"create", "gitrepos", "team-a", "", false},
		{"get", "fleetworkspaces", "", "team-a", false},
	} {
		if got := w.may("u-maker", q.verb, q.resource, q.namespace, q.name); got != q.want {
			w.Errorf("may %s %s in %q %q: %v", q.verb, q.resource, q.namespace, q.name, got)
		}
	}
	since := time.Now()
	w.rancher.Patch(w, rancher.Workspaces, "", "made", `{"metadata":{"annotations":{"note.example/x":"x"}}}`)
	w.turns("team-e")
	for _, r := range w.writes(since) {
		if strings.Contains(r.Name, "made") && r.Resource != "namespaces" {
			w.Errorf("written for nothing: %s", r)
		}
	}
	w.rancher.Delete(w, rancher.RoleBindings, "made", "fleetworkspace-admin-binding-made")
	w.until("it is put back", func() bool { return w.there(rancher.RoleBindings, "made", "fleetworkspace-admin-binding-made") })
	w.rancher.Patch(w, rancher.Workspaces, "", "made", `{"metadata":{"annotations":{"field.cattle.io/no-creator-rbac":"true"}}}`)
	w.until("who is to have none has none", func() bool {
		return !w.may("u-maker", "get", "gitrepos", "made", "") && !w.may("u-maker", "get", "fleetworkspaces", "", "made")
	})
	w.rancher.Put(w, rancher.Workspaces, "", "default", `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-maker"}}}`)
	w.until("a system namespace is refused", func() bool { return w.event("FleetWorkspace", "default", "NamespaceRefused") })
	if w.may("u-maker", "get", "gitrepos", "default", "") || w.may("u-maker", "delete", "fleetworkspaces", "", "default") {
		w.Error("a user has got rights by naming a workspace after a namespace")
	}
}

// If another user makes a workspace again while the manager is stopped, the
// user who made the first gets no rights in it.
func creatorOfAnother(w *world) {
	w.workspace("again", "u-first")
	w.until("its maker has the rights", func() bool { return w.may("u-first", "delete", "fleetworkspaces", "", "again") })
	w.stop()
	w.rancher.Patch(w, rancher.Workspaces, "", "again", `{"metadata":{"finalizers":null}}`)
	w.orphan(rancher.Workspaces, "again")
	w.rancher.Put(w, rancher.Workspaces, "", "again", `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-second"}}}`)
	w.start(plan.Auto)
	w.until("the second has the rights", func() bool {
		return w.may("u-second", "delete", "fleetworkspaces", "", "again") && w.may("u-second", "create", "helmops", "again", "")
	})
	w.until("the first has none", func() bool {
		return !w.may("u-first", "delete", "fleetworkspaces", "", "again") && !w.may("u-first", "get", "gitrepos", "again", "")
	})
	w.rancher.Delete(w, rancher.Workspaces, "", "again")
	w.until("with its workspace all is gone", func() bool {
		return !w.there(rancher.ClusterRoles, "", "fleetworkspace-own-again") && !w.there(rancher.ClusterRoleBindings, "", "fleetworkspace-own-binding-again")
	})
}

// Rancher's three roles exist and stay as users have changed them; ours collect
// what others add.
func standing(w *world) {
	bind := func(user, role string) {
		harness.Make(w, w.hub, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	bind("member", plan.AllMember)
	bind("reader", plan.AllReadOnly)
	bind("old-member", plan.RoleMember)
	w.until("roles hold their rules", func() bool {
		return w.may("member", "create", "helmops", "team-a", "") && w.may("reader", "list", "policies", "team-a", "") &&
			w.may("old-member", "create", "gitrepos", "team-a", "")
	})
	for user, verb := range map[string]string{"reader": "create", "old-member": "get"} {
		if w.may(user, verb, "helmops", "team-a", "") {
			w.Errorf("%s may %s helmops", user, verb)
		}
	}
	if w.may("member", "create", "schedules", "team-a", "") {
		w.Error("members write what they deploy, and nothing else")
	}
	harness.Make(w, w.hub, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "more-for-members", Labels: map[string]string{plan.LabelIntoMember: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{fleet.Group}, Resources: []string{"schedules"}, Verbs: []string{"create"}}},
	})
	w.until("what others add counts", func() bool { return w.may("member", "create", "schedules", "team-a", "") })

	w.rancher.Patch(w, rancher.ClusterRoles, "", plan.RoleReadOnly, `{"rules":[]}`)
	w.rancher.Patch(w, rancher.ClusterRoles, "", plan.AllAdmin+"-rules", `{"rules":[]}`)
	w.rancher.Delete(w, rancher.ClusterRoles, "", plan.RoleMember) // as Rancher does at its start, with its feature off
	w.until("Rancher's is there again, and ours as it should be", func() bool {
		r, ok := harness.Read[*rbacv1.ClusterRole](w, w.hub, "", plan.AllAdmin+"-rules")
		return w.there(rancher.ClusterRoles, "", plan.RoleMember) && ok && len(r.Rules) > 0
	})
	if r, _ := harness.Read[*rbacv1.ClusterRole](w, w.hub, "", plan.RoleReadOnly); len(r.Rules) > 0 {
		w.Errorf("Rancher's role was changed: %+v", r.Rules)
	}
}
