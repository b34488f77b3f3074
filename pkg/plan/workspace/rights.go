package workspace

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Names of Rancher's own roles for workspaces.
const (
	RoleAdmin    = "fleetworkspace-admin"
	RoleMember   = "fleetworkspace-member"
	RoleReadOnly = "fleetworkspace-readonly"
)

// Ends of the names of the roles of a GlobalRole.
const (
	inRoles = "fwcr" // rights in workspaces
	onRoles = "fwv"  // verbs on workspaces
)

const (
	labelPermissions = "authz.management.cattle.io/fleet-workspace-permissions"
	labelGRBOwner    = "authz.management.cattle.io/grb-owner"
	labelProduct     = "management.cattle.io/ui-product"
	resource         = "fleetworkspaces"
)

// Rights are roles and bindings that are to be there.
type Rights struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	RoleBindings        []*rbacv1.RoleBinding
}

// OfCreator are the rights of who has made a workspace: everything in it, and on
// it. A workspace whose maker is not known, or is to have none, gives none.
func OfCreator(w *management.FleetWorkspace) Rights {
	user := w.Annotations[AnnotationCreator]
	if user == "" || w.Annotations[AnnotationNoCreatorRBAC] == yes || w.Annotations[AnnotationManaged] == "false" {
		return Rights{}
	}
	who := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	own := naming.SafeConcat("fleetworkspace-own", w.Name)
	return Rights{
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: own}, Rules: []rbacv1.PolicyRule{on([]string{"*"}, w.Name)}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Name: naming.SafeConcat("fleetworkspace-own-binding", w.Name)}, Subjects: who, RoleRef: clusterRole(own),
		}},
		RoleBindings: []*rbacv1.RoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: naming.SafeConcat("fleetworkspace-admin-binding", w.Name)},
			Subjects:   who, RoleRef: clusterRole(RoleAdmin),
		}},
	}
}

// OfRole are the rights that a GlobalRole gives to those who are bound to it, in
// and on all workspaces but that of the local cluster. Rules and verbs count each
// for itself: a role with verbs alone has its bindings too.
func OfRole(r *management.GlobalRole, bindings []*management.GlobalRoleBinding, workspaces []string) Rights {
	p := r.InheritedFleetWorkspacePermissions
	if p == nil {
		return Rights{}
	}
	workspaces = slices.DeleteFunc(slices.Sorted(slices.Values(workspaces)), func(name string) bool { return name == fleet.NamespaceLocal })
	var out Rights
	owner := []metav1.OwnerReference{{APIVersion: management.GroupVersion.String(), Kind: "GlobalRole", Name: r.Name, UID: r.UID}}
	role := func(end string, rules []rbacv1.PolicyRule) {
		out.ClusterRoles = append(out.ClusterRoles, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: naming.SafeConcat(r.Name, end), Labels: map[string]string{labelPermissions: yes, labelManagedBy: rancher}, OwnerReferences: owner},
			Rules:      rules,
		})
	}
	if len(p.ResourceRules) > 0 {
		role(inRoles, p.ResourceRules)
	}
	verbs := len(p.WorkspaceVerbs) > 0 && len(workspaces) > 0 // no names would mean all of them
	if verbs {
		role(onRoles, []rbacv1.PolicyRule{on(p.WorkspaceVerbs, workspaces...)})
	}
	for _, b := range bindings {
		who, ok := subject(b)
		if !ok {
			continue
		}
		meta := func(namespace, name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels: map[string]string{labelPermissions: yes, labelManagedBy: rancher, labelGRBOwner: naming.SafeConcat(b.Name)},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: management.GroupVersion.String(), Kind: "GlobalRoleBinding", Name: b.Name, UID: b.UID,
				}},
			}
		}
		for _, ns := range workspaces {
			if len(p.ResourceRules) > 0 {
				out.RoleBindings = append(out.RoleBindings, &rbacv1.RoleBinding{
					ObjectMeta: meta(ns, naming.SafeConcat(b.Name)), Subjects: who, RoleRef: clusterRole(naming.SafeConcat(r.Name, inRoles)),
				})
			}
		}
		if verbs {
			out.ClusterRoleBindings = append(out.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta("", naming.SafeConcat(b.Name, onRoles)), Subjects: who, RoleRef: clusterRole(naming.SafeConcat(r.Name, onRoles)),
			})
		}
	}
	return out
}

// subject is who is bound: a user, else a group.
func subject(b *management.GlobalRoleBinding) ([]rbacv1.Subject, bool) {
	switch {
	case b.UserName != "":
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: b.UserName}}, true
	case b.GroupPrincipalName != "":
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.GroupPrincipalName}}, true
	}
	return nil, false
}

func on(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{management.Group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

// Roles are those of members of workspaces. Rancher's own three are left as they
// are; ours stand beside them, with the kinds that those do not cover, and are
// bound together with them.
func Roles() []*rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	work := []string{"helmops", "schedules", "imagescans"}
	rule := func(verbs []string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: resources, Verbs: verbs}
	}
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-more", Labels: map[string]string{labelProduct: "fleet"}}, Rules: rules,
		}
	}
	return []*rbacv1.ClusterRole{
		role(RoleAdmin, rule([]string{"*"}, append(work, "policies", "bundlenamespacemappings")...), rule(read, "bundledeployments")),
		role(RoleMember, rule([]string{"*"}, work...), rule(read, "policies", "bundlenamespacemappings", "bundledeployments")),
		role(RoleReadOnly, rule(read, append(work, "policies", "bundlenamespacemappings", "bundledeployments")...)),
	}
}
