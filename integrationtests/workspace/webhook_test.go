package workspace

import (
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestWebhook has Rancher's webhook and no Rancher, and a manager that maps with the
// rights of the chart.
func TestWebhook(t *testing.T) {
	w := newWorldFor(t, plan.Standalone)
	w.rancher = rancher.New(t, w.hub)
	w.start(plan.Standalone)
	w.rancher.Put(t, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"","default":"fleet-default"}`)
	t.Run("Assign", func(t *testing.T) { assignedBesideWebhook(w.in(t)) })
	t.Run("PodSecurity", func(t *testing.T) { podSecurityLabelsLeftOut(w.in(t)) })
}

// assignedBesideWebhook: the webhook reviews who brings a cluster into a workspace.
func assignedBesideWebhook(w *world) {
	w.rancher.Import(w, "", "c-aaaaa", "shop", "")
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-aaaaa", "spec", "fleetWorkspaceName") })
}

// podSecurityLabelsLeftOut: a user who may create a FleetWorkspace may lack the right to
// set pod security labels of a Namespace. The webhook refuses these labels when the
// manager writes them. The manager makes the Namespace without them and reports that.
func podSecurityLabelsLeftOut(w *world) {
	w.rancher.Put(w, rancher.Workspaces, "", "lax", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged","team":"a"}}}`)
	w.until("the Namespace is there", func() bool { return w.namespace("lax") != nil })
	if got := w.namespace("lax").Labels; got["team"] != "a" || got["pod-security.kubernetes.io/enforce"] != "" {
		w.Errorf("labels %v", got)
	}
	w.refused("lax", "LabelsRefused")
}
