package workspace

import (
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestGlobalRolesBesideRancher has a Rancher that lives, and a manager that maps in the
// mode standalone. Rancher deletes the binding of a GlobalRole that has verbs only, which
// the manager would make again; it leaves these rights to Rancher until that is gone.
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
	w.turns("roles")
	w.untouched(house, since, "clusterrolebindings.rbac.authorization.k8s.io", "", binding)
	w.rancher.Uninstall(t)
	w.until("the manager gives the rights", func() bool { return w.rancher.Get(t, rancher.ClusterRoleBindings, "", binding) != nil })
}
