package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Habits of people with kubectl: the names they type, the columns they cut out, the
// paths they ask for. Names and columns are the reference's.
func (w *world) scripts() {
	for _, at := range w.agents() { // a cluster that has just joined takes its agent's own bundle, too
		w.until(at.cluster+" has both bundles", func(context.Context) string {
			c, gone := get[*fleet.Cluster](w, w.local, at.workspace, at.cluster)
			if gone == "" && c.Status.Display.ReadyBundles != "2/2" {
				return c.Status.Display.ReadyBundles + ": " + c.Status.Display.State
			}
			return gone
		})
	}
	left := w.looks()
	w.until("kubectl prints what scripts read", func(context.Context) string {
		var wrong []string
		left = slices.DeleteFunc(left, func(l look) bool {
			now := w.wrong(l)
			wrong = append(wrong, now...)
			return len(now) == 0
		})
		return strings.Join(wrong, "\n")
	})
}

// A look is a call of kubectl.
type look struct {
	site    *site
	args    string
	columns string // of the table; not looked at where empty
	want    string // the output, one line each; some line holds each word where it begins with "~"
}

func (w *world) looks() []look {
	return []look{
		{w.local, "get deployments -n cattle-fleet-system -o name", "", "deployment.apps/fleet-controller\ndeployment.apps/gitjob\ndeployment.apps/helmops"},
		{w.local, "get deployments -n cattle-fleet-local-system -o name", "", "deployment.apps/fleet-agent"},
		{w.east, "get deployments -n cattle-fleet-system -o name", "", "deployment.apps/fleet-agent"},
		{w.west, "get deployments -n cattle-fleet-system -o name", "", "deployment.apps/fleet-agent"},
		{w.local, "get clusters.fleet.cattle.io -A", "NAMESPACE NAME BUNDLES-READY LAST-SEEN STATUS", "~fleet-local local 2/2|fleet-default east 2/2|fleet-default west 2/2"},
		{w.local, "get gitrepo -A", "NAMESPACE NAME REPO COMMIT BUNDLEDEPLOYMENTS-READY STATUS", "~fleet-default shop 2/2"},
		{w.local, "get bundles.fleet.cattle.io -n fleet-default", "NAME BUNDLEDEPLOYMENTS-READY STATUS", "~shop-shop 2/2"},
		{w.local, "get bundledeployments -A", "NAMESPACE NAME DEPLOYED MONITORED STATUS", "~shop-shop True True"},
		{w.local, "get clusterregistrations -n fleet-default", "NAME CLUSTER-NAME LABELS", "~east"},
		{w.local, "get clusterregistrationtokens -n fleet-default", "NAME SECRET-NAME", "~east"},
		{w.local, "get clustergroups -n fleet-local", "NAME CLUSTERS-READY BUNDLES-READY STATUS", "~default 1/1 2/2"},
		{w.local, "get cluster.fleet.cattle.io local -n fleet-local -o jsonpath={.status.namespace}", "", "~cluster-fleet-local-local-"},
		{w.local, "get cluster.fleet.cattle.io local -n fleet-local -o jsonpath={.metadata.labels.name}", "", "local"},
		{w.local, "get cluster.fleet.cattle.io east -n fleet-default -o jsonpath={.status.agent.namespace}", "", "cattle-fleet-system"},
		{w.local, "get gitrepo shop -n fleet-default -o jsonpath={.status.summary.ready}/{.status.summary.desiredReady}", "", "2/2"},
		{w.local, "get configmap fleet-controller -n cattle-fleet-system -o jsonpath={.data.config}", "", "~apiServerURL|agentImage|bootstrap"},
		{w.local, "get secret east -n fleet-default -o jsonpath={.type}", "", "fleet.cattle.io/cluster-registration-values"},
		{w.local, "get clusterrole fleet-controller gitjob fleet-bundle-deployment fleet-content -o name", "",
			"clusterrole.rbac.authorization.k8s.io/fleet-controller\nclusterrole.rbac.authorization.k8s.io/gitjob\n" +
				"clusterrole.rbac.authorization.k8s.io/fleet-bundle-deployment\nclusterrole.rbac.authorization.k8s.io/fleet-content"},
		{w.local, "get lease -n cattle-fleet-system -o name", "",
			"~fleet-controller-leader-election|fleet-agentmanagement-lock|fleet-cleanup-lock"},
		{w.east, "get secret fleet-agent -n cattle-fleet-system -o jsonpath={.data.clusterName}", "", "ZWFzdA=="},
		{w.east, "get secrets -n shop -l owner=helm -o jsonpath={.items[0].type}", "", "helm.sh/release.v1"},
		{w.local, "logs -n cattle-fleet-system deployment/fleet-controller --tail=1", "", "~{"},
		{w.west, "logs -n cattle-fleet-system -l app=fleet-agent --tail=1", "", "~{"},
		{w.west, "rollout status -n cattle-fleet-system deployment/fleet-agent --timeout=10s", "", `deployment "fleet-agent" successfully rolled out`},
	}
}

// wrong lists the differences between the output of kubectl and the expected
// one, now.
func (w *world) wrong(l look) []string {
	out, err := w.kubectl(l.site, strings.Fields(l.args)...)
	what := "kubectl " + l.args + " on " + l.site.name
	if err != nil {
		return []string{fmt.Sprintf("%s: %v: %s", what, err, out)}
	}
	var bad []string
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, column := range strings.Fields(l.columns) {
		if !slices.Contains(strings.Fields(lines[0]), column) {
			bad = append(bad, fmt.Sprintf("%s: no column %s in %q", what, column, lines[0]))
		}
	}
	if words, some := strings.CutPrefix(l.want, "~"); some {
		for row := range strings.SplitSeq(words, "|") {
			if !slices.ContainsFunc(lines, func(line string) bool { return holds(line, strings.Fields(row)) }) {
				bad = append(bad, fmt.Sprintf("%s: nothing like %q in\n%s", what, row, out))
			}
		}
	} else if strings.TrimSpace(out) != l.want {
		bad = append(bad, fmt.Sprintf("%s: %q instead of %q", what, out, l.want))
	}
	return bad
}

// holds reports whether all words are in a line.
func holds(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}
