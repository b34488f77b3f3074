package check

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
)

// readRoles reads what is granted in workspaces. A user who may not see that gets no
// findings about it.
func (c *checker) readRoles(ctx context.Context) error {
	workspaces := map[string]bool{}
	for _, t := range c.seen.Tokens {
		workspaces[t.Namespace] = true
	}
	for _, a := range c.seen.Agents {
		workspaces[a.Cluster.Namespace] = true
	}
	bindings, err := readAll[rbacv1.RoleBinding](ctx, c, "rolebindings")
	if err != nil {
		return err
	}
	roles, err := readAll[rbacv1.Role](ctx, c, "roles")
	if err != nil {
		return err
	}
	clusterRoles, err := readAll[rbacv1.ClusterRole](ctx, c, "clusterroles")
	if err != nil {
		return err
	}
	granted := map[string]map[string]bool{} // namespaces by ClusterRole
	for _, b := range bindings {
		if b.RoleRef.Kind == "ClusterRole" && workspaces[b.Namespace] {
			if granted[b.RoleRef.Name] == nil {
				granted[b.RoleRef.Name] = map[string]bool{}
			}
			granted[b.RoleRef.Name][b.Namespace] = true
		}
	}
	for _, r := range roles {
		if workspaces[r.Namespace] {
			c.seen.Roles = append(c.seen.Roles, diagnose.RoleSeen{Workspace: r.Namespace, Kind: "Role", Name: r.Name, Rules: r.Rules})
		}
	}
	for _, r := range clusterRoles {
		for workspace := range granted[r.Name] {
			c.seen.Roles = append(c.seen.Roles, diagnose.RoleSeen{Workspace: workspace, Kind: "ClusterRole", Name: r.Name, Rules: r.Rules})
		}
	}
	return nil
}

func readAll[T any](ctx context.Context, c *checker, resource string) ([]*T, error) {
	items, err := c.ListAll(ctx, client.Query{Resource: rbacv1.SchemeGroupVersion.WithResource(resource)})
	if err != nil {
		return nil, err
	}
	return client.AllAs[T](items)
}
