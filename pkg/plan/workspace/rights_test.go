package workspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	got := OfCreator(named("team-a", map[string]string{AnnotationCreator: "u-abcde"})).text()
	want := `role fleetworkspace-own-team-a: [*] [fleetworkspaces] [team-a]
everywhere fleetworkspace-own-binding-team-a: User u-abcde is fleetworkspace-own-team-a
in team-a fleetworkspace-admin-binding-team-a: User u-abcde is fleetworkspace-admin
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for name, marks := range map[string]map[string]string{
		"nobody": nil, "not wanted": {AnnotationCreator: "u", AnnotationNoCreatorRBAC: "true"}, "unmanaged": {AnnotationCreator: "u", AnnotationManaged: "false"},
	} {
		if got := OfCreator(named("a", marks)).text(); got != "" {
			t.Errorf("%s: %s", name, got)
		}
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

// Rancher's own roles do not cover all kinds; each of ours gives no more on them
// than the one it stands beside.
func TestRoles(t *testing.T) {
	for _, role := range Roles() {
		for _, rule := range role.Rules {
			if writes := rule.Verbs[0] == "*"; writes && strings.HasPrefix(role.Name, RoleReadOnly) {
				t.Errorf("%s may write %v", role.Name, rule.Resources)
			}
			for _, r := range rule.Resources {
				if r == "bundledeployments" && rule.Verbs[0] == "*" {
					t.Errorf("%s may write what managers write", role.Name)
				}
			}
		}
	}
}
