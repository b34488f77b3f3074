package pods

import (
	"context"
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
	for _, look := range []struct {
		site    *site
		args    string
		columns string // of the table; not looked at where empty
		want    string // the output, one line each; some line holds each word where it begins with "~"
	}{
		{w.local, "get deployments -n cattle-fleet-system -o name", "", "deployment.apps/fleet-controller\ndeployment.apps/gitjob"},
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
	} {
		out, err := w.kubectl(look.site, strings.Fields(look.args)...)
		if err != nil {
			w.Errorf("kubectl %s on %s: %v: %s", look.args, look.site.name, err, out)
			continue
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for _, column := range strings.Fields(look.columns) {
			if !slices.Contains(strings.Fields(lines[0]), column) {
				w.Errorf("kubectl %s on %s: no column %s in %q", look.args, look.site.name, column, lines[0])
			}
		}
		if words, some := strings.CutPrefix(look.want, "~"); some {
			for row := range strings.SplitSeq(words, "|") {
				if !slices.ContainsFunc(lines, func(line string) bool { return holds(line, strings.Fields(row)) }) {
					w.Errorf("kubectl %s on %s: nothing like %q in\n%s", look.args, look.site.name, row, out)
				}
			}
		} else if want := look.want; want != "" && strings.TrimSpace(out) != want {
			w.Errorf("kubectl %s on %s: %q instead of %q", look.args, look.site.name, out, want)
		}
	}
}

// holds tells whether all words are in a line.
func holds(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}
