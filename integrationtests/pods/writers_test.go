package pods

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the list of what may be written")

// listOfWriters is who may write what, on which cluster, in the whole test.
const listOfWriters = "testdata/writers.txt"

const listHead = `# Who may write what while the story of this package is told, by the audit logs of the
# three API servers: cluster, identity, verb, kind, namespace. What is not listed may
# not be written. Rewritten with -update; read the difference before you commit it.
`

// The audit logs of all API servers, from the first second to the last: each write by
// one of our identities is on the list.
func (w *world) writers() {
	seen := map[string]harness.Request{}
	for _, s := range w.sites() {
		all, err := harness.ReadAudit(s.name, s.cluster.AuditLog(), w.began)
		w.must(err)
		for _, r := range all {
			if who := identity(r); who != "" && r.Writes() && r.Resource != "" {
				line := fmt.Sprintf("%s %s: %s %s%s", s.name, who, r.Verb, r.What(), in(r.Namespace))
				if _, old := seen[line]; !old {
					seen[line] = r
				}
				if r.Code == 403 && !r.Ending && (s.ends.IsZero() || r.At.Before(s.ends)) && !s.lacksRoles(r) {
					w.Errorf("%s was refused: %s", who, r)
				}
			}
		}
	}
	var have []string
	for line := range seen {
		have = append(have, line)
	}
	slices.Sort(have)
	if *update {
		w.must(os.MkdirAll(filepath.Dir(listOfWriters), 0o750))
		w.must(os.WriteFile(listOfWriters, []byte(listHead+strings.Join(have, "\n")+"\n"), 0o600))
		return
	}
	data, err := os.ReadFile(listOfWriters)
	w.must(err)
	may := strings.Split(string(data), "\n")
	var extra []string
	for _, line := range have {
		if !slices.Contains(may, line) {
			extra = append(extra, line+"\n    first: "+seen[line].String())
		}
	}
	if diff := cmp.Diff([]string(nil), extra); diff != "" {
		w.Errorf("writes that are not on the list\n-want +got\n%s", diff)
	}
}

// A period is from one moment to another.
type period struct{ from, to time.Time }

// lacksRoles reports whether the manager was refused a ClusterRole between Rancher's
// first start and the upgrade of the chart, which gives that right where it finds
// Rancher's kinds.
func (s *site) lacksRoles(r harness.Request) bool {
	return r.Resource == "clusterroles" && r.At.After(s.withoutRoles.from) && r.At.Before(s.withoutRoles.to)
}

// identity is who one of our own programs is to an API server, in a word that is the
// same in every run; it is empty for people, nodes, Rancher and
// Kubernetes' own controllers.
func identity(r harness.Request) string {
	account, ok := strings.CutPrefix(r.User, "system:serviceaccount:")
	switch {
	case r.User == cluster.AdminUser && strings.HasPrefix(r.Agent, "fleet-"):
		return "the manager, by a kubeconfig"
	case !ok:
		return ""
	}
	namespace, name, _ := strings.Cut(account, ":")
	switch {
	case namespace == "kube-system" || namespace == "cattle-system":
		return ""
	case namespace == fleet.NamespaceRegistration || strings.HasPrefix(namespace, "cluster-"):
		return "an agent's credential"
	case namespace == fleet.NamespaceDefault || namespace == fleet.NamespaceLocal || namespace == team:
		return "a registration token"
	}
	return namespace + "/" + name
}

// in is the namespace of a request, without what is random in it.
func in(namespace string) string {
	switch {
	case namespace == "":
		return ""
	case strings.HasPrefix(namespace, "cluster-"):
		return " in a cluster's namespace"
	}
	return " in " + namespace
}
