package workspace

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Ends of the names of the roles of a GlobalRole.
const (
	inRoles = "fwcr" // rights in workspaces
	onRoles = "fwv"  // verbs on workspaces
)

// Labels of roles and bindings. The first three are Rancher's, on what belongs to a
// GlobalRole or a GlobalRoleBinding; the other two are Fleet's own, on what belongs to a
// workspace.
const (
	LabelPermissions = "authz.management.cattle.io/fleet-workspace-permissions"
	LabelRoleOwner   = "authz.management.cattle.io/gr-owner"
	LabelGrantOwner  = "authz.management.cattle.io/grb-owner"
	// LabelRights is RightsCreator or RightsStanding.
	LabelRights = "fleet.cattle.io/workspace-rights"
	// LabelWorkspace is the name of the workspace whose maker has these rights.
	LabelWorkspace = "fleet.cattle.io/workspace"
	// LabelProduct is "fleet" on roles that Rancher's UI offers for workspaces.
	LabelProduct = "management.cattle.io/ui-product"
	// Product is the value of LabelProduct.
	Product = "fleet"
)

// Values of LabelRights.
const (
	RightsCreator  = "creator"
	RightsStanding = "standing"
)

const resource = "fleetworkspaces"

// Rights are the roles and bindings that should exist.
type Rights struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	RoleBindings        []*rbacv1.RoleBinding
}

// OfCreator returns the rights of who has made a workspace: everything in it, and on it.
// They belong to the workspace as it is, not to its name: one that is made again under the
// name gives nothing to who has made the first. A workspace whose maker is not known, or is
// to have none, gives none.
//
// The names are those of Rancher's own handler, which does not shorten them.
func OfCreator(w *management.FleetWorkspace) Rights {
	user := w.Annotations[AnnotationCreator]
	if user == "" || w.Annotations[AnnotationNoCreatorRBAC] == yes || w.Annotations[AnnotationManaged] == "false" {
		return Rights{}
	}
	who := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:          map[string]string{LabelRights: RightsCreator, LabelWorkspace: w.Name},
			OwnerReferences: []metav1.OwnerReference{ownerOf("FleetWorkspace", w)},
		}
	}
	own := "fleetworkspace-own-" + w.Name
	return Rights{
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: meta("", own), Rules: []rbacv1.PolicyRule{namedRule([]string{"*"}, w.Name)}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
			ObjectMeta: meta("", "fleetworkspace-own-binding-"+w.Name), Subjects: who, RoleRef: clusterRole(own),
		}},
		RoleBindings: []*rbacv1.RoleBinding{
			{ObjectMeta: meta(w.Name, "fleetworkspace-admin-binding-"+w.Name), Subjects: who, RoleRef: clusterRole(RoleAdmin)},
			{ObjectMeta: meta(w.Name, "fleet-workspace-admin-binding-"+w.Name), Subjects: who, RoleRef: clusterRole(AllAdmin)},
		},
	}
}

// GrantsRights reports whether GlobalRoles give rights in the namespace of a workspace. ns is that
// namespace, nil where there is none; held says that Clusters or Bundles are in it.
//
// A user who may make FleetWorkspaces can name one after any namespace. So GrantsRights accepts a
// namespace only if it is a workspace's: it was made or adopted for one, or it has Clusters
// or Bundles, which no other user can put there.
func GrantsRights(w *management.FleetWorkspace, ns *metav1.PartialObjectMetadata, held bool) bool {
	if w.DeletionTimestamp != nil || ns == nil || ns.DeletionTimestamp != nil || w.Name == fleet.NamespaceLocal || System(w.Name, ns) {
		return false
	}
	if held {
		return true
	}
	plain := w.DeepCopy()
	delete(plain.Annotations, AnnotationManaged)
	action, _ := DecideNamespace(plain, ns)
	return action == Create || action == Adopt
}

// RoleNames returns the names of the two ClusterRoles of a GlobalRole: that with its rights
// in workspaces, and that with its verbs on them.
func RoleNames(globalRole string) (in, on string) {
	return naming.SafeConcat(globalRole, inRoles), naming.SafeConcat(globalRole, onRoles)
}

// RoleOwnedBy reports whether a ClusterRole bears the mark of a GlobalRole. A ClusterRole
// with the expected name may belong to another GlobalRole, which has been given such a
// name.
func RoleOwnedBy(r *rbacv1.ClusterRole, globalRole string) bool {
	return r.Labels[LabelRoleOwner] == naming.SafeConcat(globalRole)
}

// RoleEnds returns the ends of such names, each after a dash, where they are not shortened.
func RoleEnds() []string { return []string{inRoles, onRoles} }

// Shortened reports whether a name may be one that had to be shortened.
func Shortened(name string) bool {
	return len(name) == len(naming.SafeConcat(strings.Repeat("x", 100)))
}

// OfRole returns the rights that a GlobalRole gives to those who are bound to it, in and on
// workspaces, which are names for which GrantsRights is true. Rules and verbs count each for
// itself: a role with verbs alone has its bindings too.
func OfRole(r *management.GlobalRole, bindings []*management.GlobalRoleBinding, workspaces []string) Rights {
	p := r.InheritedFleetWorkspacePermissions
	if p == nil {
		return Rights{}
	}
	workspaces = slices.DeleteFunc(slices.Sorted(slices.Values(workspaces)), func(name string) bool { return name == fleet.NamespaceLocal })
	rules := len(p.ResourceRules) > 0
	verbs := len(p.WorkspaceVerbs) > 0 && len(workspaces) > 0 // no names would mean all of them
	in, over := RoleNames(r.Name)
	var out Rights
	if rules {
		out.ClusterRoles = append(out.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: ofGlobalRole(r, in), Rules: p.ResourceRules})
	}
	if verbs {
		out.ClusterRoles = append(out.ClusterRoles, &rbacv1.ClusterRole{
			ObjectMeta: ofGlobalRole(r, over), Rules: []rbacv1.PolicyRule{namedRule(p.WorkspaceVerbs, workspaces...)},
		})
	}
	for _, b := range bindings {
		who, ok := boundSubject(b)
		if !ok || b.DeletionTimestamp != nil {
			continue
		}
		if rules {
			for _, ns := range workspaces {
				out.RoleBindings = append(out.RoleBindings, inWorkspace(b, ns, in, who))
			}
		}
		if verbs {
			out.ClusterRoleBindings = append(out.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
				ObjectMeta: ofGrant(b, "", naming.SafeConcat(b.Name, onRoles)), Subjects: who, RoleRef: clusterRole(over),
			})
		}
	}
	return out
}

// inWorkspace binds subjects to the role of a GlobalRole in one workspace.
func inWorkspace(b *management.GlobalRoleBinding, workspace, role string, who []rbacv1.Subject) *rbacv1.RoleBinding {
	out := &rbacv1.RoleBinding{ObjectMeta: ofGrant(b, workspace, naming.SafeConcat(b.Name)), Subjects: who, RoleRef: clusterRole(role)}
	out.Labels[LabelPermissions] = yes
	return out
}

// ofGlobalRole is the identity of something that belongs to a GlobalRole, as
// Rancher marks it.
func ofGlobalRole(r *management.GlobalRole, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            name,
		Labels:          map[string]string{LabelRoleOwner: naming.SafeConcat(r.Name), labelManagedBy: rancher},
		OwnerReferences: []metav1.OwnerReference{ownerOf("GlobalRole", r)},
	}
}

// ofGrant is the identity of something that belongs to a GlobalRoleBinding, as
// Rancher marks it.
func ofGrant(b *management.GlobalRoleBinding, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:          map[string]string{LabelGrantOwner: naming.SafeConcat(b.Name), labelManagedBy: rancher},
		OwnerReferences: []metav1.OwnerReference{ownerOf("GlobalRoleBinding", b)},
	}
}

func ownerOf(kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: management.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}
}

// boundSubject is who is bound: a user, else a group.
func boundSubject(b *management.GlobalRoleBinding) ([]rbacv1.Subject, bool) {
	switch {
	case b.UserName != "":
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: b.UserName}}, true
	case b.GroupPrincipalName != "":
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.GroupPrincipalName}}, true
	}
	return nil, false
}

func namedRule(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{management.Group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}
