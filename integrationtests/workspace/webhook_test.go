package workspace

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

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
	t.Run("Refuses", func(t *testing.T) { webhookRefuses(w.in(t)) })
	t.Run("PodSecurity", func(t *testing.T) { podSecurityLabelsLeftOut(w.in(t)) })
}

// assignedBesideWebhook: the webhook reviews who brings a cluster into a workspace.
func assignedBesideWebhook(w *world) {
	w.rancher.Import(w, "", "c-aaaaa", "shop", "")
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-aaaaa", "spec", "fleetWorkspaceName") })
}

// webhookRefuses: what the webhook refuses, for every client.
func webhookRefuses(w *world) {
	w.rancher.Triple(w, "fleet-default", "made", "c-m-abcd0004", "")
	w.rancher.Import(w, "fleet-local", "local", "local", `"internal":true`)
	w.until("the namespace of the local cluster is there", func() bool { return w.namespace("fleet-local") != nil })
	for name, c := range map[string]struct {
		of              schema.GroupVersionResource
		namespace, name string
		text, message   string
		code            int32
	}{
		"Emptied": {
			of: rancher.Clusters, name: "c-m-abcd0004", text: `{"spec":{"fleetWorkspaceName":null}}`,
			message: "once set, field FleetWorkspaceName cannot be made empty", code: http.StatusBadRequest,
		},
		"Imported": {
			of: rancher.ProvClusters, namespace: "fleet-default", name: "made", text: `{"spec":{"rkeConfig":null}}`,
			message: "RKEConfig", code: http.StatusUnprocessableEntity,
		},
		"Local":          {of: rancher.Clusters, name: "local", message: "local cluster may not be deleted", code: http.StatusBadRequest},
		"LocalNamespace": {of: rancher.Namespaces, name: "fleet-local", message: "can't delete local cluster", code: http.StatusBadRequest},
	} {
		if got := w.rancher.Denied(w, c.of, c.namespace, c.name, c.text); got.Code != c.code || !strings.Contains(got.Message, c.message) {
			w.Errorf("%s: %d, %s", name, got.Code, got.Message)
		}
	}
}

// podSecurityLabelsLeftOut: a user who may create a FleetWorkspace may lack the right to
// set pod security labels of a Namespace. The webhook refuses these labels when the
// manager writes them. The manager makes the Namespace without them and reports that.
func podSecurityLabelsLeftOut(w *world) {
	w.rancher.Put(w, rancher.Workspaces, "", "lax", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged","team":"a"}}}`)
	w.refused("lax", "LabelsRefused")
	w.until("the Namespace is there", func() bool { return w.namespace("lax") != nil })
	if got := w.namespace("lax").Labels; got["team"] != "a" || got["pod-security.kubernetes.io/enforce"] != "" {
		w.Errorf("labels %v", got)
	}
}
