package sources

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// opState returns the version in the status of a HelmOp, how many deployments are Ready,
// and the message of condition Ready.
func opState(w *harness.World, name string) string {
	op, ok := harness.Get[*fleet.HelmOp](w, w.Local, fleet.NamespaceDefault, name)
	if !ok {
		return "gone"
	}
	state := op.Status.Version + " " + op.Status.Display.ReadyBundleDeployments
	if c := condition.Find(op.Status.Conditions, fleet.ConditionReady); c != nil {
		state += " " + string(c.Status) + " " + c.Message
	}
	return strings.TrimSpace(state)
}

// helmOp creates a HelmOp for all clusters, which is gone after the test.
func helmOp(t *testing.T, w *harness.World, name string, change func(*fleet.HelmOpSpec)) *fleet.HelmOp {
	t.Helper()
	op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name}}
	op.Spec.DefaultNamespace = name
	op.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	change(&op.Spec)
	op = harness.Create(w, w.Local, op)
	t.Cleanup(func() {
		if _, ok := harness.Get[*fleet.HelmOp](w, w.Local, op.Namespace, name); ok {
			harness.Delete(w, w.Local, op)
		}
	})
	return op
}

// A HelmOp deploys a chart of a private repository to all clusters in one version, follows
// its constraint by polling, keeps what is deployed while the repository is away, and takes
// the chart with it when it is deleted.
func TestHelmOp(t *testing.T) {
	w := harness.Open(t)
	charts := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0", "2.0.0"), Username: robot, Password: canary, TLS: true})
	newer := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0", "1.1.0", "2.0.0")})
	secret(t, w, "helmop", corev1.SecretTypeOpaque, map[string]string{"username": robot, "password": canary, "cacerts": string(charts.CA)})
	op := helmOp(t, w, "polled", func(s *fleet.HelmOpSpec) {
		s.Helm = &fleet.HelmOptions{Repo: charts.URL, Chart: "app", Version: "^1"}
		s.HelmSecretName = "helmop"
		s.PollingInterval = &metav1.Duration{Duration: time.Second}
	})
	harness.Eventually(w, "deployed", func() string { return opState(w, "polled") }, "1.0.0 2/2 True")
	for _, m := range w.Downstream() {
		harness.Eventually(w, "on "+m.Name, harness.Data(w, m, "polled", "app"), harness.ConfigMapData("1.0.0"))
	}

	index := charts.File("/index.yaml")
	charts.Put("/index.yaml", []byte("not an index"))
	w.Until("the status says that the index is broken", func() string { return harness.Missing(opState(w, "polled"), "1.0.0 2/2 False", charts.Host) })
	charts.Put("/index.yaml", index)
	harness.Eventually(w, "the repository is back", func() string { return opState(w, "polled") }, "1.0.0 2/2 True")

	charts.Put("/archives/app-1.1.0.tgz", newer.File("/archives/app-1.1.0.tgz"))
	charts.Put("/index.yaml", newer.File("/index.yaml"))
	harness.Eventually(w, "the new version", func() string { return opState(w, "polled") }, "1.1.0 2/2 True")
	for _, m := range w.Downstream() {
		harness.Eventually(w, "on "+m.Name, harness.Data(w, m, "polled", "app"), harness.ConfigMapData("1.1.0"))
	}
	search(t, w, canary)

	harness.Delete(w, w.Local, op)
	harness.Eventually(w, "it goes", func() string { return opState(w, "polled") }, "gone")
	harness.Eventually(w, "and its objects", harness.Data(w, w.C1, "polled", "app"), nil)
}

// A HelmOp deploys a chart of a registry, whose newest version the manager finds; another
// one says what is wrong with it, and does not disturb its neighbour.
func TestHelmOpFromRegistry(t *testing.T) {
	w := harness.Open(t)
	registry := ocitest.Start(t, ocitest.Options{})
	for _, v := range []string{"1.0.0", "1.2.0+build.1", "2.0.0-rc.1"} {
		registry.PushChart(t, "charts/app", v, ocitest.Chart(t, "app", v, files("app")))
	}
	secret(t, w, "plain", corev1.SecretTypeOpaque, map[string]string{"basicHTTP": "true"})
	helmOp(t, w, "nowhere", func(s *fleet.HelmOpSpec) {
		s.Helm, s.HelmSecretName = &fleet.HelmOptions{Repo: "oci://" + registry.Host + "/charts/none"}, "plain"
	})
	helmOp(t, w, "registry", func(s *fleet.HelmOpSpec) {
		s.Helm, s.HelmSecretName = &fleet.HelmOptions{Repo: "oci://" + registry.Host + "/charts/app"}, "plain"
	})
	harness.Eventually(w, "deployed", func() string { return opState(w, "registry") }, "1.2.0+build.1 2/2 True")
	harness.Eventually(w, "on c1", harness.Data(w, w.C1, "registry", "app"), harness.ConfigMapData("1.2.0+build.1"))
	w.Until("the other one says why", func() string { return harness.Missing(opState(w, "nowhere"), "False", "charts/none") })
}
