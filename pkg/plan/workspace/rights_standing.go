package workspace

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Names of Rancher's own roles for workspaces.
const (
	RoleAdmin    = "fleetworkspace-admin"
	RoleMember   = "fleetworkspace-member"
	RoleReadOnly = "fleetworkspace-readonly"
)

// Names of Fleet's roles for workspaces. They hold all kinds of a workspace, and whatever
// else is labeled for them.
const (
	AllAdmin    = "fleet-workspace-admin"
	AllMember   = "fleet-workspace-member"
	AllReadOnly = "fleet-workspace-readonly"
)

// Labels of ClusterRoles whose rules become part of Fleet's roles.
const (
	LabelIntoAdmin    = "fleet.cattle.io/aggregate-to-workspace-admin"
	LabelIntoMember   = "fleet.cattle.io/aggregate-to-workspace-member"
	LabelIntoReadOnly = "fleet.cattle.io/aggregate-to-workspace-readonly"
)

// BaseRoles returns Rancher's own three roles, with the rules that Rancher gives them. The
// manager makes them where there is no Rancher to make them, and never changes them.
func BaseRoles() []*rbacv1.ClusterRole {
	around := []string{"clusterregistrationtokens", "gitreporestrictions", "clusterregistrations", "clusters", "clustergroups"}
	work := []string{"gitrepos", "bundles"}
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelProduct: Product}}, Rules: rules}
	}
	return []*rbacv1.ClusterRole{
		role(RoleAdmin, verbRule([]string{"*"}, append(around, work...)...), bindRoles()),
		role(RoleMember, verbRule([]string{"*"}, work...), verbRule(readVerbs(), around...)),
		role(RoleReadOnly, verbRule(readVerbs(), append(around, work...)...)),
	}
}

// OwnRoles returns this manager's roles: three that Rancher's UI offers for workspaces,
// which collect their rules by label, and three that hold this manager's rules. Other
// programs that bring kinds of their own to workspaces label roles in the same way.
//
// Schedules and Policies rule over the work of others, so only administrators of a
// workspace write them. BundleNamespaceMappings lead out of the workspace, so no user of it
// writes them (docs/decisions/0030). Only managers write BundleDeployments.
func OwnRoles() []*rbacv1.ClusterRole {
	all := func(name, label string) *rbacv1.ClusterRole {
		out := standingRole(name)
		out.Labels[LabelProduct] = Product
		out.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{label: yes}}}}
		return out
	}
	part := func(name string, into []string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		out := standingRole(name)
		for _, label := range into {
			out.Labels[label] = yes
		}
		out.Rules = rules
		return out
	}
	every := []string{
		"bundles", "bundledeployments", "bundlenamespacemappings", "clustergroups", "clusterregistrations", "clusterregistrationtokens",
		"clusters", "gitreporestrictions", "gitrepos", "helmops", "imagescans", "policies", "schedules",
	}
	return []*rbacv1.ClusterRole{
		part(AllReadOnly+"-rules", []string{LabelIntoReadOnly, LabelIntoMember, LabelIntoAdmin}, verbRule(readVerbs(), every...)),
		part(AllMember+"-rules", []string{LabelIntoMember, LabelIntoAdmin}, verbRule([]string{"*"}, "bundles", "gitrepos", "helmops", "imagescans")),
		part(AllAdmin+"-rules", []string{LabelIntoAdmin}, verbRule([]string{"*"},
			"clustergroups", "clusterregistrations", "clusterregistrationtokens", "clusters", "gitreporestrictions", "policies", "schedules"), bindRoles()),
		all(AllReadOnly, LabelIntoReadOnly), all(AllMember, LabelIntoMember), all(AllAdmin, LabelIntoAdmin),
	}
}

// LeastRole returns the least of our roles for workspaces with which a user may do
// something with a resource of Fleet; empty where none allows it.
func LeastRole(verb, resource string) string {
	for _, role := range []struct{ name, label string }{
		{AllReadOnly, LabelIntoReadOnly}, {AllMember, LabelIntoMember}, {AllAdmin, LabelIntoAdmin},
	} {
		for _, part := range OwnRoles() {
			if part.Labels[role.label] == yes && slices.ContainsFunc(part.Rules, func(r rbacv1.PolicyRule) bool { return allows(r, verb, resource) }) {
				return role.name
			}
		}
	}
	return ""
}

func allows(r rbacv1.PolicyRule, verb, resource string) bool {
	return slices.Contains(r.APIGroups, fleet.Group) && slices.Contains(r.Resources, resource) &&
		(slices.Contains(r.Verbs, "*") || slices.Contains(r.Verbs, verb))
}

func standingRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelRights: RightsStanding}}}
}

func readVerbs() []string { return []string{"get", "list", "watch"} }

func verbRule(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: resources, Verbs: verbs}
}

// bindRoles lets a user decide who has which role in a workspace. Kubernetes does not let
// users grant rights that they do not have.
func bindRoles() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"*"}}
}
