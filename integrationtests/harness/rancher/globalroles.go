package rancher

import (
	"errors"
	"reflect"
	"slices"

	"github.com/rancher/wrangler/v3/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Labels of what Rancher makes of GlobalRoles and their bindings, with the names of
// those, and the ends of its names: rights in workspaces, and verbs on them.
const (
	labelRoleOwner  = "authz.management.cattle.io/gr-owner"
	labelGrantOwner = "authz.management.cattle.io/grb-owner"
	inWorkspaces    = "fwcr"
	onWorkspaces    = "fwv"
)

// globalRole keeps the two ClusterRoles of a GlobalRole as they should be
// (rancher-differences.md, B 6; docs/reference-behaviour.md).
func (s *session) globalRole(r *object) (*object, error) {
	rules, _ := field(r, "inheritedFleetWorkspacePermissions", "resourceRules").([]any)
	verbs, _ := field(r, "inheritedFleetWorkspacePermissions", "workspaceVerbs").([]any)
	errs := []error{s.role(r, inWorkspaces, rules)}
	switch workspaces := s.workspaceNames(); {
	case len(verbs) > 0 && len(workspaces) > 0:
		errs = append(errs, s.role(r, onWorkspaces, []any{map[string]any{
			"verbs": verbs, "apiGroups": []any{"management.cattle.io"}, "resources": []any{"fleetworkspaces"}, "resourceNames": workspaces,
		}}))
	case len(verbs) == 0:
		errs = append(errs, s.role(r, onWorkspaces, nil))
	}
	return nil, errors.Join(errs...)
}

// role makes, changes or deletes one ClusterRole of a GlobalRole; without rules there
// is none.
func (s *session) role(of *object, end string, rules []any) error {
	id := name.SafeConcatName(of.GetName(), end)
	found := s.cached(ClusterRoles, id)
	switch {
	case rules == nil && found == nil:
		return nil
	case rules == nil:
		return s.delete(ClusterRoles, "", id)
	case found == nil:
		made := s.owned(ClusterRoles, "", id, of, labelRoleOwner)
		set(made, rules, "rules")
		return s.make(ClusterRoles, made)
	case reflect.DeepEqual(field(found, "rules"), rules):
		return nil
	}
	set(found, rules, "rules")
	_, err := s.update(ClusterRoles, found)
	return err
}

// globalRoleBinding keeps the bindings to those ClusterRoles: one in each workspace, and
// one for the verbs. Both are there only if the GlobalRole has resourceRules.
func (s *session) globalRoleBinding(b *object) (*object, error) {
	r := s.cached(GlobalRoles, text(b, "globalRoleName"))
	if r == nil {
		return nil, errors.New("unable to get globalRole " + text(b, "globalRoleName"))
	}
	wanted := field(r, "inheritedFleetWorkspacePermissions", "resourceRules") != nil
	errs := []error{s.binding(b, r, ClusterRoleBindings, "", onWorkspaces, wanted, b.GetName(), onWorkspaces)}
	for _, ws := range s.workspaceNames() {
		errs = append(errs, s.binding(b, r, RoleBindings, ws.(string), inWorkspaces, wanted, b.GetName()))
	}
	return nil, errors.Join(errs...)
}

// binding makes, replaces or deletes one binding of a GlobalRoleBinding.
func (s *session) binding(b, of *object, kind schema.GroupVersionResource, namespace, end string, wanted bool, names ...string) error {
	id := name.SafeConcatName(names...)
	found := s.find(kind, namespace, id)
	made := s.owned(kind, namespace, id, b, labelGrantOwner)
	subject := map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": text(b, "userName")}
	if group := text(b, "groupPrincipalName"); text(b, "userName") == "" {
		subject["kind"], subject["name"] = "Group", group
	}
	set(made, []any{subject}, "subjects")
	set(made, map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name.SafeConcatName(of.GetName(), end)}, "roleRef")
	if namespace != "" {
		set(made, "true", "metadata", "labels", "authz.management.cattle.io/fleet-workspace-permissions")
	}
	switch {
	case !wanted && found == nil:
		return nil
	case !wanted:
		return s.delete(kind, namespace, id)
	case found == nil:
		return s.make(kind, made)
	case reflect.DeepEqual(field(found, "subjects"), field(made, "subjects")) && reflect.DeepEqual(field(found, "roleRef"), field(made, "roleRef")):
		return nil
	}
	return errors.Join(s.delete(kind, namespace, id), s.make(kind, made))
}

// owned is an object that belongs to a GlobalRole or to a GlobalRoleBinding.
func (s *session) owned(r schema.GroupVersionResource, namespace, id string, owner *object, label string) *object {
	out := blank(r, namespace, id)
	out.SetLabels(map[string]string{label: name.SafeConcatName(owner.GetName()), "app.kubernetes.io/managed-by": "rancher"})
	out.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}})
	return out
}

// workspaceNames are the names of all workspaces but that of the local cluster, sorted.
func (s *session) workspaceNames() []any {
	if s.caches[Workspaces] == nil {
		return nil
	}
	var out []any
	for _, key := range slices.Sorted(slices.Values(s.caches[Workspaces].GetIndexer().ListKeys())) {
		if key != FleetLocal {
			out = append(out, key)
		}
	}
	return out
}

// wakeRoles lets GlobalRoles and their bindings have a turn where something changes that
// they depend on.
func (s *session) wakeRoles(r schema.GroupVersionResource, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	changed, ok := obj.(*object)
	if !ok || !s.on[featureMCM] {
		return
	}
	switch r {
	case Workspaces, GlobalRoles: // a role looks at its workspaces, and wakes its bindings
		for _, kind := range []schema.GroupVersionResource{GlobalRoles, GlobalRoleBindings} {
			if r == kind || s.caches[kind] == nil {
				continue
			}
			for _, key := range s.caches[kind].GetIndexer().ListKeys() {
				s.queue.Add(item{kind, key})
			}
		}
	case ClusterRoles:
		if of := changed.GetLabels()[labelRoleOwner]; of != "" {
			s.queue.Add(item{GlobalRoles, of})
		}
	case ClusterRoleBindings:
		if of := changed.GetLabels()[labelGrantOwner]; of != "" {
			s.queue.Add(item{GlobalRoleBindings, of})
		}
	}
}
