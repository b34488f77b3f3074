package charts_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A holding is what one credential may do in one place.
type holding struct {
	place string
	rules []rbacv1.PolicyRule
}

// TestRightsTable keeps the tables of docs/security.md current: they say what
// the charts and the planner grant, and nothing else.
func TestRightsTable(t *testing.T) {
	charts := mustRender(t, fleetRelease(nil).besideRancher())
	agentChart := mustRender(t, agentRelease(nil))
	role := func(kind, name string) []rbacv1.PolicyRule {
		u := charts[kind+"/"+namespaceOf(kind)+"/"+name]
		if u == nil {
			u = agentChart[kind+"/"+namespaceOf(kind)+"/"+name]
		}
		var out rbacv1.ClusterRole // a Role has the same fields
		into(t, u, &out)
		return out.Rules
	}
	system := registration.System{Namespace: fleet.NamespaceSystem, ManagerID: "id"}
	request := &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "WORKSPACE", Name: "request-x", UID: "u"}}
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "WORKSPACE", Name: "CLUSTER"}}
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "WORKSPACE", Name: "token", UID: "u"}}
	grant := registration.GrantAgent(request, cluster, "NAMESPACE", system)
	handover := registration.HandOver(request, cluster, system, token)
	handover.Role.Rules[0].ResourceNames = []string{"the one made for its request"}

	if grant.Deployments.RoleRef.Name != "fleet-bundle-deployment" || grant.Content.RoleRef.Name != "fleet-content" {
		t.Fatal("an agent is bound to other roles than this table shows")
	}
	tables := map[string][]holding{
		"rights of agents": {
			{"the cluster's own namespace", role("ClusterRole", grant.Deployments.RoleRef.Name)},
			{"the whole management cluster", role("ClusterRole", grant.Content.RoleRef.Name)},
			{"its workspace", grant.StatusRole.Rules},
		},
		"rights of registration tokens": {
			{"its workspace", registration.GrantToken(token, system).Role.Rules},
			{"cattle-fleet-clusters-system, for 40 minutes", handover.Role.Rules},
		},
		"rights of the manager": {
			{"the whole management cluster", role("ClusterRole", "fleet-controller")},
			{"cattle-fleet-system", role("Role", "fleet-controller")},
		},
		"rights of the manager over Rancher's objects": {
			{"the whole management cluster", role("ClusterRole", "fleet-controller-workspace")},
		},
		"rights of gitjob": {
			{"the whole management cluster", role("ClusterRole", "gitjob")},
			{"cattle-fleet-system", role("Role", "gitjob")},
		},
		"rights of helmops": {
			{"the whole management cluster", role("ClusterRole", "helmops")},
			{"cattle-fleet-system", role("Role", "helmops")},
		},
		"rights of an agent in its own cluster": {
			{"the whole downstream cluster", role("ClusterRole", "cattle-fleet-system-fleet-agent-role")},
		},
		"rights of the bootstrap account": {
			{"the whole management cluster", role("ClusterRole", "fleet-controller-bootstrap")},
		},
	}
	for name, holdings := range tables {
		checkSection(t, filepath.Join("..", "docs", "security.md"), name, table(holdings))
	}
}

func namespaceOf(kind string) string {
	if kind == "Role" {
		return fleet.NamespaceSystem
	}
	return ""
}

// table prints rights, one row for each rule.
func table(holdings []holding) string {
	var b strings.Builder
	b.WriteString("| where | what | verbs |\n|---|---|---|\n")
	for _, h := range holdings {
		for _, r := range h.rules {
			var what []string
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					if group != "" {
						resource += "." + group
					}
					what = append(what, "`"+resource+"`")
				}
			}
			for _, url := range r.NonResourceURLs {
				what = append(what, "URLs `"+url+"`")
			}
			if len(r.ResourceNames) > 0 {
				what = append(what, "only "+strings.Join(r.ResourceNames, ", "))
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", h.place, strings.Join(what, ", "), strings.Join(r.Verbs, ", "))
		}
	}
	return b.String()
}

// appendix is what the reference grants its processes: ours may hold less, and
// more only where beyond says why. Each entry is "verb resource.group"; a
// resource of another process is named where its work is done here.
var appendix = map[string][]string{
	"fleet-controller": {
		"* *.fleet.cattle.io", "* namespaces", "* serviceaccounts", "* secrets", "* configmaps",
		"* clusterroles.rbac.authorization.k8s.io", "* clusterrolebindings.rbac.authorization.k8s.io",
		"* roles.rbac.authorization.k8s.io", "* rolebindings.rbac.authorization.k8s.io",
		"* events.events.k8s.io", // core events there
		"get deployments.apps", "list deployments.apps", "watch deployments.apps", "* leases.coordination.k8s.io in its namespace",
	},
	"gitjob": {
		"* secrets", "* configmaps", "* gitrepos.fleet.cattle.io", "* gitrepos/status.fleet.cattle.io",
		"list gitreporestrictions.fleet.cattle.io", "get gitreporestrictions.fleet.cattle.io", "watch gitreporestrictions.fleet.cattle.io",
		"list policies.fleet.cattle.io", "get policies.fleet.cattle.io", "watch policies.fleet.cattle.io",
		"list bundles.fleet.cattle.io", "delete bundles.fleet.cattle.io", "get bundles.fleet.cattle.io",
		"watch bundles.fleet.cattle.io", "update bundles.fleet.cattle.io",
		"list contents.fleet.cattle.io", "delete contents.fleet.cattle.io", "get contents.fleet.cattle.io",
		"watch contents.fleet.cattle.io", "update contents.fleet.cattle.io",
		"create bundles.fleet.cattle.io", // of the Job that reads a commit: the work is done in this process
		"* events.events.k8s.io", "* leases.coordination.k8s.io in its namespace",
	},
	"helmops": {
		"list secrets", "watch secrets", "* configmaps", "* helmops.fleet.cattle.io", "* helmops/status.fleet.cattle.io",
		"get policies.fleet.cattle.io", "list policies.fleet.cattle.io", "watch policies.fleet.cattle.io", "* bundles.fleet.cattle.io",
		"* events.events.k8s.io", "* leases.coordination.k8s.io in its namespace",
	},
}

// beyond is what our processes may do and the reference's may not.
var beyond = map[string]map[string]string{
	"fleet-controller": {
		"get clusters.provisioning.cattle.io":                "whether Rancher has given a kubeconfig of another namespace to a Cluster, by objects that its owner cannot forge alone",
		"get clusters.management.cattle.io":                  "the same",
		"get customresourcedefinitions.apiextensions.k8s.io": "six of Fleet's own by name: whether a kind is being deleted, before anything is removed that goes with it",
		"get leases.coordination.k8s.io":                     "three leases by name: whether another manager is alive before its Clusters are touched",
		"list leases.coordination.k8s.io":                    "the same, before it starts",
	},
	"gitjob": {
		"list leases.coordination.k8s.io":              "three leases by name: whether another manager is alive before it starts",
		"list deployments.apps":                        "one by name: the same",
		"patch bundles.fleet.cattle.io":                "the manager changes one field with a patch; the right to update allows the same",
		"create contents.fleet.cattle.io":              "a bundle too large for one object is stored in parts by the process that reads it, so that no other has to load it",
		"get clusters.fleet.cattle.io":                 "whether a cluster exists that a fleet.yaml names, to warn with the line; Clusters hold no credentials",
		"list clusters.fleet.cattle.io":                "the same, by the name that Rancher shows",
		"get clustergroups.fleet.cattle.io":            "the same for a cluster group",
		"list bundlenamespacemappings.fleet.cattle.io": "whether bundles go to clusters of other namespaces, where gitjob does not know which names exist",
		"patch contents.fleet.cattle.io":               "one that is about to be used again is marked, so that it is not swept in that moment; one that a stopped process left behind is completed",
	},
	"helmops": {
		"get secrets":                     "one by name, with the credentials of a HelmOp; the right to list all allows the same",
		"list leases.coordination.k8s.io": "three leases by name: whether another manager is alive before it starts",
		"list deployments.apps":           "one by name: the same",
	},
}

// TestNoWiderThanTheReference: every right of our processes is one that the
// reference grants, or is listed with its reason.
func TestNoWiderThanTheReference(t *testing.T) {
	objects := mustRender(t, fleetRelease(nil))
	for _, name := range []string{"fleet-controller", "gitjob", "helmops"} {
		used := map[string]bool{}
		for _, key := range []string{"ClusterRole//" + name, "Role/" + fleet.NamespaceSystem + "/" + name} {
			var role rbacv1.Role
			into(t, objects[key], &role)
			for _, right := range rights(role.Rules) {
				if strings.HasPrefix(key, "Role/") && strings.Contains(right, "leases") {
					right += " in its namespace"
				}
				if covered(appendix[name], right) {
					continue
				}
				if beyond[name][right] == "" {
					t.Errorf("%s may %s, which the reference's may not", name, right)
				}
				used[right] = true
			}
		}
		for right := range beyond[name] {
			if !used[right] {
				t.Errorf("%s: %s is excused but not granted", name, right)
			}
		}
	}
}

// byRancher is what the manager may do because of Rancher's objects, and why. It
// is Rancher's own part, which the reference has no processes for.
var byRancher = map[string]string{
	"customresourcedefinitions.apiextensions.k8s.io": "whether Rancher's kinds are there",
	"leases.coordination.k8s.io":                     "one lease by name: whether Rancher lives",
	"nodes":                                          "taints of the manager's own cluster, which its agent tolerates",
	"clusters.management.cattle.io":                  "a cluster is given its workspace",
	"fleetworkspaces.management.cattle.io":           "a namespace with clusters becomes a workspace; one that holds clusters is kept",
	"features.management.cattle.io":                  "read",
	"settings.management.cattle.io":                  "read",
	"globalroles.management.cattle.io":               "read",
	"globalrolebindings.management.cattle.io":        "read",
	"clusters.provisioning.cattle.io":                "made of management Clusters whose names say so",
	"clusters.cluster.x-k8s.io":                      "read: a workspace that holds one is kept",
	"clusters.fleet.cattle.io":                       "made of Rancher's, and deleted with them",
	"clustergroups.fleet.cattle.io":                  "the group of the local cluster stays as Rancher has it",
	"clusterroles.rbac.authorization.k8s.io":         "rights that a GlobalRole gives in workspaces",
}

// TestRightsOverRancher: in the mode in which Rancher does it all, the manager
// reads, and patches FleetWorkspaces; in no mode may it do more than the table
// explains, and Rancher's objects are never updated as a whole.
func TestRightsOverRancher(t *testing.T) {
	for mode, writes := range map[string]bool{"auto": true, "standalone": true, "rancher": false} {
		var role rbacv1.ClusterRole
		into(t, mustRender(t, fleetRelease(set("workspace.mode", mode)).besideRancher())["ClusterRole//fleet-controller-workspace"], &role)
		wrote := false
		for _, right := range rights(role.Rules) {
			verb, what, _ := strings.Cut(right, " ")
			if byRancher[what] == "" {
				t.Errorf("%s: it may %s, without a stated reason", mode, right)
			}
			if strings.Contains(what, "management.cattle.io") || strings.Contains(what, "provisioning.cattle.io") {
				if verb == "update" || verb == "*" || verb == "deletecollection" {
					t.Errorf("%s: it may %s: an update loses what our types do not know", mode, right)
				}
			}
			if !slices.Contains([]string{"get", "list", "watch"}, verb) && right != "patch fleetworkspaces.management.cattle.io" {
				wrote = true
			}
		}
		if wrote != writes {
			t.Errorf("%s: it may write: %v, want %v", mode, wrote, writes)
		}
	}
}

// TestEscalation: the manager may give rights that it does not have if Rancher's
// GlobalRoles exist or if the values select the mode standalone, and in no other case.
func TestEscalation(t *testing.T) {
	for name, c := range map[string]struct {
		release release
		want    bool
	}{
		"WithoutRancher": {fleetRelease(nil), false},
		"BesideRancher":  {fleetRelease(nil).besideRancher(), true},
		"InItsPlace":     {fleetRelease(set("workspace.mode", "standalone")), true},
		"RancherDoesIt":  {fleetRelease(set("workspace.mode", "rancher")).besideRancher(), false},
	} {
		for key, object := range mustRender(t, c.release) {
			if !strings.HasPrefix(key, "ClusterRole/") || strings.HasSuffix(key, "-bootstrap") {
				continue
			}
			var role rbacv1.ClusterRole
			into(t, object, &role)
			for _, right := range []string{"escalate clusterroles.rbac.authorization.k8s.io", "create clusterroles.rbac.authorization.k8s.io"} {
				want := c.want && role.Name == "fleet-controller-workspace"
				if got := slices.Contains(rights(role.Rules), right); got != want {
					t.Errorf("%s: %s may %s: %v, want %v", name, role.Name, right, got, want)
				}
			}
		}
	}
}

// rights lists rules as "verb resource.group".
func rights(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					if group != "" {
						resource += "." + group
					}
					out = append(out, verb+" "+resource)
				}
			}
		}
	}
	return out
}

// covered reports whether a list of rights includes one.
func covered(all []string, right string) bool {
	verb, resource, _ := strings.Cut(right, " ")
	_, group, _ := strings.Cut(resource, ".")
	return slices.ContainsFunc(all, func(have string) bool {
		v, r, _ := strings.Cut(have, " ")
		return (v == "*" || v == verb) && (r == resource || r == "*."+group)
	})
}
