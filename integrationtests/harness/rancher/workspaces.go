package rancher

import (
	"fmt"
	"strings"
)

// annotationManaged with "false" keeps hands off a workspace's namespace.
const annotationManaged = "provisioning.cattle.io/managed"

// defaultWorkspace makes the workspace that the setting names. Rancher does so with
// multi-cluster management only.
func (s *session) defaultWorkspace(setting *object) (*object, error) {
	if setting.GetName() != settingWorkspace || !s.on[featureMCM] {
		return nil, nil
	}
	name := text(setting, "value")
	if name == "" {
		name = text(setting, "default")
	}
	if name == "" || s.cached(Workspaces, name) != nil {
		return nil, nil
	}
	return nil, s.make(Workspaces, blank(Workspaces, "", name))
}

// workspace generates the namespace of a workspace and the rights of its creator.
// A namespace that is there already is taken over.
func (s *session) workspace(w *object) (*object, error) {
	if w.GetAnnotations()[annotationManaged] == "false" {
		return nil, s.put("workspace", w, madeOfWorkspaces)
	}
	ns := blank(Namespaces, "", w.GetName())
	ns.SetLabels(clean(w.GetLabels()))
	ns.SetAnnotations(clean(w.GetAnnotations()))
	objs := []*object{ns}
	if creator := w.GetAnnotations()["field.cattle.io/creatorId"]; creator != "" {
		objs = append(objs, rightsOf(creator, w.GetName())...)
	}
	return nil, s.put("workspace", w, madeOfWorkspaces, objs...)
}

// rightsOf are those of the creator of a workspace.
func rightsOf(creator, workspace string) []*object {
	subjects := []any{map[string]any{"kind": "User", "apiGroup": ClusterRoles.Group, "name": creator}}
	ref := func(role string) map[string]any {
		return map[string]any{"kind": "ClusterRole", "apiGroup": ClusterRoles.Group, "name": role}
	}
	admin := blank(RoleBindings, workspace, "fleetworkspace-admin-binding-"+workspace)
	set(admin, subjects, "subjects")
	set(admin, ref("fleetworkspace-admin"), "roleRef")
	role := blank(ClusterRoles, "", "fleetworkspace-own-"+workspace)
	rule := grant(Workspaces.Group, Workspaces.Resource, "*")
	rule["resourceNames"] = []any{workspace}
	set(role, []any{rule}, "rules")
	owner := blank(ClusterRoleBindings, "", "fleetworkspace-own-binding-"+workspace)
	set(owner, subjects, "subjects")
	set(owner, ref(role.GetName()), "roleRef")
	return []*object{admin, role, owner}
}

// backport makes a workspace of the namespace of a Fleet object.
func (s *session) backport(obj *object) (*object, error) {
	name := obj.GetNamespace()
	if s.cached(Workspaces, name) != nil {
		return nil, nil
	}
	ns := s.cached(Namespaces, name)
	if ns == nil { // it has no owner yet; another watch may be about to deliver it
		return nil, fmt.Errorf("namespace %q is not there", name)
	}
	w := blank(Workspaces, "", name)
	w.SetAnnotations(map[string]string{annotationManaged: "false"})
	set(w, []any{map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": string(ns.GetUID())}}, "metadata", "ownerReferences")
	return nil, s.make(Workspaces, w)
}

// SystemProject is the project of Rancher's that workspaces' namespaces belong to.
const SystemProject = "local:p-systm"

// project puts the namespaces of workspaces into a project: those of two fixed
// names and those that Fleet keeps, where they are in none or in one of its own.
func (s *session) project(ns *object) (*object, error) {
	const key = "field.cattle.io/projectId"
	switch ns.GetName() {
	case FleetLocal, "fleet-default", "cattle-fleet-clusters-system":
	default:
		if ns.GetLabels()["fleet.cattle.io/managed"] != "true" {
			return nil, nil
		}
	}
	annotations := ns.GetAnnotations()
	now := annotations[key]
	if now == SystemProject || now != "" && !strings.HasPrefix(now, "local:") {
		return nil, nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = SystemProject
	ns.SetAnnotations(annotations)
	return s.update(Namespaces, ns)
}
