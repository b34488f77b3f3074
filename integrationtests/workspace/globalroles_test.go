package workspace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestGlobalRolesBesideRancher has a Rancher that lives, and a manager that maps in the
// mode standalone. Rancher deletes the binding of a GlobalRole that has verbs only, which
// the manager would make again; it leaves these rights to Rancher until that is gone. What
// Rancher has made of a GlobalRole with rules the manager takes over as it is.
func TestGlobalRolesBesideRancher(t *testing.T) {
	const binding = "grb-looks-fwv"
	w := newWorldFor(t, plan.Standalone)
	w.rancher = rancher.New(t, w.hub)
	w.rancher.Start(t)
	w.until("there is a workspace", func() bool { return w.namespace("fleet-default") != nil })
	since := time.Now()
	w.start(plan.Standalone)
	w.plays(plan.Map)
	w.rancher.Put(t, rancher.GlobalRoles, "", "looks", `{"inheritedFleetWorkspacePermissions":{"workspaceVerbs":["get"]}}`)
	w.rancher.Put(t, rancher.GlobalRoleBindings, "", "grb-looks", `{"globalRoleName":"looks","userName":"u-ana"}`)
	w.rancher.Put(t, rancher.GlobalRoles, "", "works", `{"inheritedFleetWorkspacePermissions":{"workspaceVerbs":["get"],
		"resourceRules":[{"apiGroups":["fleet.cattle.io"],"resources":["helmops"],"verbs":["create","get"]}]}}`)
	w.rancher.Put(t, rancher.GlobalRoleBindings, "", "grb-works", `{"globalRoleName":"works","userName":"u-bob"}`)
	given := map[string]schema.GroupVersionResource{
		"works-fwcr": rancher.ClusterRoles, "works-fwv": rancher.ClusterRoles, "grb-works-fwv": rancher.ClusterRoleBindings, "grb-works": rancher.RoleBindings,
	}
	namespaceOf := func(r schema.GroupVersionResource) string {
		if r == rancher.RoleBindings {
			return "fleet-default"
		}
		return ""
	}
	for name, r := range given {
		w.until("Rancher makes "+name, func() bool { return w.rancher.Get(t, r, namespaceOf(r), name) != nil })
	}
	w.rancher.Put(t, rancher.Workspaces, "", "team-r", `{}`)
	w.until("a new workspace is in Rancher's role", func() bool {
		return strings.Contains(fmt.Sprint(w.rancher.Get(t, rancher.ClusterRoles, "", "works-fwv").Object["rules"]), "team-r")
	})
	w.turns("roles")
	w.untouched(manager, since, "clusterrolebindings.rbac.authorization.k8s.io", "", binding)
	w.rancher.Uninstall(t)
	since = time.Now()
	w.until("the manager gives the rights", func() bool { return w.rancher.Get(t, rancher.ClusterRoleBindings, "", binding) != nil })
	w.turns("more")
	for name, r := range given {
		w.untouched(manager, since, r.GroupResource().String(), namespaceOf(r), name)
	}
}
