package rights_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// rotationWrites lists the writes of a rotation, by the identity of the writer: no
// other object of the cluster is touched. The two lines with "may" depend on which
// process is faster.
var rotationWrites = map[string]string{
	// What the new credential is, and who may fetch it.
	"manager create serviceaccounts registration/ROTATED":                      "must",
	"manager create secrets registration/ROTATED-token":                        "must",
	"manager create roles.rbac registration/ROTATED-fetch":                     "must",
	"manager create rolebindings.rbac registration/ROTATED-fetch":              "must",
	"manager patch rolebindings.rbac workspace/REQUEST":                        "must",
	"manager patch rolebindings.rbac deployments/REQUEST":                      "must",
	"manager patch clusterrolebindings.rbac ACCOUNT-content":                   "must",
	"manager patch clusters workspace/CLUSTER":                                 "must",
	"manager patch clusters/status workspace/CLUSTER":                          "may",
	"manager create events.events.k8s.io workspace/CLUSTER":                    "must",
	"agent patch secrets own/fleet-agent":                                      "must",
	"agent create events.events.k8s.io own/fleet-agent-contact":                "must",
	"agent patch configmaps own/fleet-agent-journal":                           "may",
	"agent with ACCOUNT patch clusters/status workspace/CLUSTER":               "must",
	"agent with ROTATED patch clusters/status workspace/CLUSTER":               "must",
	"agent with ACCOUNT patch bundledeployments/status deployments/app":        "may",
	"manager delete serviceaccounts registration/ACCOUNT":                      "must",
	"manager delete roles.rbac registration/ROTATED-fetch":                     "must",
	"manager delete rolebindings.rbac registration/ROTATED-fetch":              "must",
	"agent with ROTATED patch bundledeployments/status deployments/app":        "must",
	"agent create leases.coordination.k8s.io own/fleet-agent":                  "may",
	"agent patch configmaps own/fleet-agent-contact":                           "may",
	"agent create selfsubjectreviews.authentication.k8s.io ":                   "may",
	"agent create selfsubjectaccessreviews.authorization.k8s.io ":              "may",
	"agent with ROTATED create selfsubjectreviews.authentication.k8s.io ":      "may",
	"agent with ROTATED create selfsubjectaccessreviews.authorization.k8s.io ": "may",
}

// judge compares what was written since a moment because of one rotation with what
// may be written: by the audit log of the API server, which is the manager's and
// the member's at once. What the next order to deploy something writes into the
// cluster is not looked at.
func judge(m *member, since time.Time, account string) {
	m.Helper()
	all, err := m.Hub.Requests(since)
	m.Must(err)
	rotated, request := m.accounts()[0], m.request(account)
	plain := strings.NewReplacer(rotated, "ROTATED", account, "ACCOUNT", request, "REQUEST", m.Name, "CLUSTER",
		fleet.NamespaceRegistration+"/", "registration/", m.Workspace+"/", "workspace/", m.Deployments+"/", "deployments/", m.Namespace+"/", "own/")
	got := map[string]bool{}
	for _, r := range all {
		if !r.Writes() || r.Code >= 300 || !m.concerns(r, request) {
			continue
		}
		who := m.who(r)
		if who == "" {
			continue
		}
		resource, name := r.What(), r.Name
		if r.Group != "" && r.Group != fleet.Group {
			resource += "." + strings.TrimSuffix(r.Group, ".authorization.k8s.io")
		}
		if resource == "events.events.k8s.io" {
			name, _, _ = strings.Cut(name, ".") // of what, and a number
		}
		if r.Namespace != "" {
			name = r.Namespace + "/" + name
		}
		got[plain.Replace(who+" "+r.Verb+" "+resource+" "+name)] = true
	}
	want := map[string]bool{}
	for line, need := range rotationWrites {
		if need == "must" || got[line] {
			want[line] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		m.Errorf("what was written because of a rotation\n-want +got\n%s", diff)
	}
}

// request is the name of the ClusterRegistration that an account was made for.
func (m *member) request(account string) string {
	m.Helper()
	for _, r := range list[*fleet.ClusterRegistration](m.w, m.Workspace, "") {
		if strings.HasPrefix(account, r.Name+"-") {
			return r.Name
		}
	}
	m.Fatalf("account %s was made for no request", account)
	return ""
}

// concerns reports whether a request is about a member, and not about what its bundle
// deploys.
func (m *member) concerns(r harness.Request, request string) bool {
	release := strings.HasPrefix(r.Name, "sh.helm.release.") || strings.HasPrefix(r.Name, "fleet-store-")
	return strings.Contains(r.Name, request) || strings.Contains(r.Name, m.Name) && r.Namespace == m.Workspace ||
		r.Namespace == m.Deployments || r.Namespace == m.Namespace && !release
}

// who is who has sent a request; empty: the test, or Kubernetes.
func (m *member) who(r harness.Request) string {
	switch account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"+fleet.NamespaceRegistration+":"); {
	case ok:
		return "agent with " + account
	case r.User == "system:serviceaccount:"+fleet.NamespaceSystem+":fleet-controller":
		return "manager"
	case r.User == "system:serviceaccount:"+m.Namespace+":fleet-agent":
		return "agent"
	}
	return ""
}
