package workspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// text is a line for each role and binding.
func (r Rights) text() string {
	var b strings.Builder
	for _, x := range r.ClusterRoles {
		for _, rule := range x.Rules {
			fmt.Fprintf(&b, "role %s: %v %v %v\n", x.Name, rule.Verbs, rule.Resources, rule.ResourceNames)
		}
	}
	for _, x := range r.ClusterRoleBindings {
		fmt.Fprintf(&b, "everywhere %s: %s %s is %s\n", x.Name, x.Subjects[0].Kind, x.Subjects[0].Name, x.RoleRef.Name)
	}
	for _, x := range r.RoleBindings {
		fmt.Fprintf(&b, "in %s %s: %s %s is %s\n", x.Namespace, x.Name, x.Subjects[0].Kind, x.Subjects[0].Name, x.RoleRef.Name)
	}
	return b.String()
}

func TestOfCreator(t *testing.T) {
	w := named("team-a", map[string]string{AnnotationCreator: "u-abcde"})
	w.UID = "uid-1"
	rights := OfCreator(w)
	want := `role fleetworkspace-own-team-a: [*] [fleetworkspaces] [team-a]
everywhere fleetworkspace-own-binding-team-a: User u-abcde is fleetworkspace-own-team-a
in team-a fleetworkspace-admin-binding-team-a: User u-abcde is fleetworkspace-admin
in team-a fleet-workspace-admin-binding-team-a: User u-abcde is fleet-workspace-admin
`
	if diff := cmp.Diff(want, rights.text()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, o := range rights.all() {
		owners := o.GetOwnerReferences()
		if len(owners) != 1 || owners[0].Kind != "FleetWorkspace" || owners[0].UID != w.UID || o.GetLabels()[LabelWorkspace] != w.Name {
			t.Errorf("%s outlives its workspace: %+v", o.GetName(), owners)
		}
	}
	for name, marks := range map[string]map[string]string{
		"nobody": nil, "not wanted": {AnnotationCreator: "u", AnnotationNoCreatorRBAC: "true"}, "unmanaged": {AnnotationCreator: "u", AnnotationManaged: "false"},
	} {
		if got := OfCreator(named("a", marks)).text(); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Rancher does not shorten these names; ours have to be the same, or there would be
// two of each.
func TestLongNames(t *testing.T) {
	name := strings.Repeat("w", 63)
	for _, o := range OfCreator(named(name, map[string]string{AnnotationCreator: "u"})).all() {
		if !strings.HasSuffix(o.GetName(), "-"+name) {
			t.Errorf("shortened: %s", o.GetName())
		}
	}
}

// all are the roles and bindings, as objects.
func (r Rights) all() []metav1.Object {
	var out []metav1.Object
	for _, x := range r.ClusterRoles {
		out = append(out, x)
	}
	for _, x := range r.ClusterRoleBindings {
		out = append(out, x)
	}
	for _, x := range r.RoleBindings {
		out = append(out, x)
	}
	return out
}

func TestOpens(t *testing.T) {
	now := metav1.Now()
	created := map[string]string{AnnotationOrigin: OriginCreated}
	for name, c := range map[string]struct {
		why  string
		w    *management.FleetWorkspace
		ns   *metav1.PartialObjectMetadata
		held bool
		want bool
	}{
		"Made":      {"it was made for its workspace", named("a", nil), namespace("a", nil, created), false, true},
		"Local":     {"that of the local cluster is for administrators", named("fleet-local", nil), namespace("fleet-local", nil, created), true, false},
		"NotYet":    {"there is nothing to bind in", named("a", nil), nil, false, false},
		"Stranger":  {"a user has named a workspace after a namespace", named("prod", nil), namespace("prod", nil, nil), false, false},
		"Unmanaged": {"the annotation is as easily set by a stranger", named("prod", map[string]string{AnnotationManaged: "false"}), namespace("prod", nil, nil), false, false},
		"Back":      {"a namespace with clusters is a workspace, also if it was first", named("prod", map[string]string{AnnotationManaged: "false"}), namespace("prod", nil, nil), true, true},
		"System":    {"never, whatever is in it", named("kube-system", nil), namespace("kube-system", nil, nil), true, false},
		"Marked":    {"Rancher has made it", named("a", nil), namespace("a", map[string]string{labelManagedBy: rancher}, nil), false, true},
		"Leaving":   {"it is being deleted", &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: &now}}, namespace("a", nil, created), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := GrantsRights(c.w, c.ns, c.held); got != c.want {
				t.Errorf("%s: %v", c.why, got)
			}
		})
	}
}

func TestOfRole(t *testing.T) {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, Resources: []string{"gitrepos"}}}
	bindings := []*management.GlobalRoleBinding{
		{ObjectMeta: metav1.ObjectMeta{Name: "b1"}, UserName: "ana"}, {ObjectMeta: metav1.ObjectMeta{Name: "b2"}, GroupPrincipalName: "ops"}, {ObjectMeta: metav1.ObjectMeta{Name: "b3"}},
	}
	workspaces := []string{"team-b", "fleet-local", "team-a"}
	for name, c := range map[string]struct {
		p          *management.FleetWorkspacePermission
		workspaces []string
		want       string
	}{
		"nothing": {workspaces: workspaces},
		"verbs": {p: &management.FleetWorkspacePermission{WorkspaceVerbs: []string{"get"}}, workspaces: workspaces, want: `role r-fwv: [get] [fleetworkspaces] [team-a team-b]
everywhere b1-fwv: User ana is r-fwv
everywhere b2-fwv: Group ops is r-fwv
`},
		"rules": {p: &management.FleetWorkspacePermission{ResourceRules: rules}, workspaces: workspaces[:1], want: `role r-fwcr: [get] [gitrepos] []
in team-b b1: User ana is r-fwcr
in team-b b2: Group ops is r-fwcr
`},
		"verbs on none": {p: &management.FleetWorkspacePermission{WorkspaceVerbs: []string{"*"}}, workspaces: []string{"fleet-local"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &management.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, InheritedFleetWorkspacePermissions: c.p}
			if diff := cmp.Diff(c.want, OfRole(r, bindings, c.workspaces).text()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestStanding checks that every kind of a workspace is in our roles, and that
// each level may do all that the level before may do. No level may write what
// leads out of the workspace or what managers write.
func TestStanding(t *testing.T) {
	levels := []string{LabelIntoReadOnly, LabelIntoMember, LabelIntoAdmin}
	may := make([]map[string]bool, len(levels))
	for i, label := range levels {
		may[i] = map[string]bool{}
		for _, role := range OwnRoles() {
			if role.Labels[label] != "true" {
				continue
			}
			for _, rule := range role.Rules {
				for _, r := range rule.Resources {
					for _, v := range rule.Verbs {
						may[i][v+" "+r] = true
					}
				}
			}
		}
	}
	for _, k := range fleet.Kinds() {
		if k.Namespaced && !may[0]["watch "+k.Plural] {
			t.Errorf("%s cannot be read", k.Plural)
		}
	}
	for i := 1; i < len(may); i++ {
		for right := range may[i-1] {
			if !may[i][right] {
				t.Errorf("%s: %s is missing", levels[i], right)
			}
		}
	}
	for _, right := range []string{"* helmops", "* imagescans"} {
		if !may[1][right] || may[0][right] {
			t.Errorf("members, and not readers, have %s", right)
		}
	}
	for _, right := range []string{"* schedules", "* policies", "* rolebindings"} {
		if !may[2][right] || may[1][right] {
			t.Errorf("administrators, and not members, have %s", right)
		}
	}
	for _, right := range []string{"* bundledeployments", "* bundlenamespacemappings"} {
		if may[2][right] {
			t.Errorf("no level has %s", right)
		}
	}
}

// TestBaseRoles: Rancher's own roles are as Rancher makes them.
func TestBaseRoles(t *testing.T) {
	var b strings.Builder
	for _, r := range BaseRoles() {
		for _, rule := range r.Rules {
			fmt.Fprintf(&b, "%s %v: %v %v\n", r.Name, r.Labels, rule.Verbs, rule.Resources)
		}
	}
	want := `fleetworkspace-admin map[management.cattle.io/ui-product:fleet]: [*] [clusterregistrationtokens gitreporestrictions clusterregistrations clusters clustergroups gitrepos bundles]
fleetworkspace-admin map[management.cattle.io/ui-product:fleet]: [*] [rolebindings]
fleetworkspace-member map[management.cattle.io/ui-product:fleet]: [*] [gitrepos bundles]
fleetworkspace-member map[management.cattle.io/ui-product:fleet]: [get list watch] [clusterregistrationtokens gitreporestrictions clusterregistrations clusters clustergroups]
fleetworkspace-readonly map[management.cattle.io/ui-product:fleet]: [get list watch] [clusterregistrationtokens gitreporestrictions clusterregistrations clusters clustergroups gitrepos bundles]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestLeastRole: the least role that really contains a right, and none where none does.
func TestLeastRole(t *testing.T) {
	for right, want := range map[string]string{
		"list gitrepos":                    AllReadOnly,
		"get clusterregistrationtokens":    AllReadOnly,
		"patch gitrepos":                   AllMember,
		"delete bundles":                   AllMember,
		"patch clusters":                   AllAdmin,
		"create clusterregistrationtokens": AllAdmin,
		"patch bundledeployments":          "",
		"create bundlenamespacemappings":   "",
		"patch gitrepos/status":            "",
	} {
		verb, resource, _ := strings.Cut(right, " ")
		if got := LeastRole(verb, resource); got != want {
			t.Errorf("%s: want %q, got %q", right, want, got)
		}
	}
}

func TestMend(t *testing.T) {
	w := named("a", map[string]string{AnnotationCreator: "ana"})
	w.UID = "1"
	want := OfCreator(w).RoleBindings[0]
	for name, c := range map[string]struct {
		why    string
		change func(*rbacv1.RoleBinding)
		want   RightsAction
	}{
		"Same":    {"nothing differs", func(*rbacv1.RoleBinding) {}, Fits},
		"More":    {"what others have added stays", func(b *rbacv1.RoleBinding) { b.Labels["x"] = "y"; b.Annotations = map[string]string{"x": "y"} }, Fits},
		"Who":     {"another user has it", func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "bob" }, Mend},
		"Earlier": {"it is of a workspace of the same name that is gone", func(b *rbacv1.RoleBinding) { b.OwnerReferences[0].UID = "0" }, Mend},
		"Role":    {"a binding's role cannot be changed", func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "cluster-admin" }, Remake},
	} {
		t.Run(name, func(t *testing.T) {
			live := want.DeepCopy()
			c.change(live)
			before := live.DeepCopy()
			changed, deed := MendRoleBinding(live, want)
			if deed != c.want {
				t.Errorf("%s: %v", c.why, deed)
			}
			if _, again := MendRoleBinding(changed, want); deed == Mend && again != Fits {
				t.Errorf("%s: it does not fit afterwards", c.why)
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("it was changed where it was: %s", diff)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	w := named("a", map[string]string{AnnotationCreator: "ana"})
	want := OfCreator(w).ClusterRoles[0]
	grant := OfRole(&management.GlobalRole{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, InheritedFleetWorkspacePermissions: &management.FleetWorkspacePermission{WorkspaceVerbs: []string{"get"}},
	}, nil, []string{"a"}).ClusterRoles[0]
	for name, c := range map[string]struct {
		live, want metav1.Object
		ours       bool
	}{
		"Bare":         {&rbacv1.ClusterRole{}, want, false},
		"Same":         {want, want, true},
		"OtherSpace":   {OfCreator(named("b", w.Annotations)).ClusterRoles[0], want, false},
		"RancherSpace": {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationObjectSetID: "workspace", annotationSetOwner: "a"}}}, want, true},
		"RancherOther": {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationObjectSetID: "workspace", annotationSetOwner: "b"}}}, want, false},
		"GlobalRole":   {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelRoleOwner: "r"}}}, grant, true},
		"OtherRole":    {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelRoleOwner: "s"}}}, grant, false},
	} {
		if got := MayChange(c.live, c.want); got != c.ours {
			t.Errorf("%s: %v", name, got)
		}
	}
}
