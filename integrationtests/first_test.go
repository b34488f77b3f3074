package integrationtests

import (
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A first commit with plain YAML, a chart and a kustomization reaches Ready on
// both clusters, each with its own values.
func TestFirstCommit(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("first")
	repo.Write("plain/fleet.yaml", harness.FleetYAML("first"))
	repo.Write("plain/settings.yaml", harness.ConfigMapYAML("plain", "hello"))
	repo.Write("chart/fleet.yaml", `defaultNamespace: first
helm:
  values:
    greeting: hello
targetCustomizations:
- name: prod
  clusterSelector:
    matchLabels:
      env: prod
  helm:
    values:
      greeting: good day
`)
	repo.Write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n")
	repo.Write("chart/values.yaml", "greeting: nothing\n")
	repo.Write("chart/templates/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: chart\ndata:\n  value: {{ .Values.greeting }}\n")
	repo.Write("kustomize/fleet.yaml", harness.FleetYAML("first"))
	repo.Write("kustomize/kustomization.yaml", "resources: [settings.yaml]\nnamePrefix: my-\n")
	repo.Write("kustomize/settings.yaml", harness.ConfigMapYAML("kustomize", "hello"))
	commit := repo.Commit("first")

	repo.Deploy()

	repo.EventuallyReady(commit, 6)
	for m, greeting := range map[*harness.Member]string{w.C1: "hello", w.C2: "good day"} {
		harness.Eventually(w, "plain YAML on "+m.Name, harness.Data(w, m, "first", "plain"), harness.ConfigMapData("hello"))
		harness.Eventually(w, "chart on "+m.Name, harness.Data(w, m, "first", "chart"), harness.ConfigMapData(greeting))
		harness.Eventually(w, "kustomization on "+m.Name, harness.Data(w, m, "first", "my-kustomize"), harness.ConfigMapData("hello"))
	}
}

// Ready comes from the objects in the cluster: a Deployment whose pod finds no
// node is not Ready, however happy Helm is, and becomes Ready with its pod.
func TestReadyComesFromTheCluster(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("live")
	repo.Write("app/fleet.yaml", harness.FleetYAML("live"))
	repo.Write("app/deployment.yaml", harness.DeploymentYAML("app", "test/live"))
	commit := repo.Commit("an app that wants a special node")

	repo.Deploy()

	harness.Eventually(w, "NotReady on both", repo.State, harness.State{Commit: commit, Counts: "0/2"})
	harness.Eventually(w, "the state says so", func() string { return repo.Deployment(w.C1, "live-app").Status.Display.State }, string(fleet.NotReady))
	for _, m := range w.Downstream() {
		w.LabelNodes(m, "test/live")
	}
	repo.EventuallyReady(commit, 2)
}
