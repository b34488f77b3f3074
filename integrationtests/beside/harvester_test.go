package beside

import (
	"context"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestHarvester is a Rancher that knows its own cluster only and installs what
// belongs to it through Fleet: with Rancher's mapping and, in a fork without that,
// with ours. Such a fork does not say where the cluster's API server is.
func TestHarvester(t *testing.T) {
	t.Parallel()
	for name, without := range map[string][]string{
		"24_mcm_off":             nil,
		"24_mcm_off_mapped_here": {"fleet-cluster", "fleet-cluster-assign", "default-workspace", "workspace", "workspace-backport-cluster", "workspace-backport-bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harvester(t, without)
		})
	}
}

func harvester(t *testing.T, without []string) {
	w := newWorld(t, harness.Cluster(t, "harvester"), func(hub *harness.Hub, values map[string]any) {
		values["agentTLSMode"], values["agentCheckinInterval"] = "strict", "1s"
		if without != nil {
			values["workspace"] = map[string]any{"mode": "standalone"}
			values["apiServerURL"], values["apiServerCA"] = hub.Cluster.URL(), string(hub.Cluster.CA())
		}
	})
	p := rancher.New(t, w.hub)
	p.Without, p.Catalog = without, []*chart.Chart{harvesterChart(t)}
	p.Put(t, rancher.Features, "", "multi-cluster-management", `{"spec":{"value":false},"status":{"default":true}}`)
	p.Start(t)
	w.start("fleet-controller", "pod")
	w.agentOf(fleet.NamespaceLocalAgent)
	w.until("the local cluster is mapped", func() bool { return w.cluster(fleet.NamespaceLocal, "local") != nil })
	_, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Create(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.NamespaceLocal, Name: "imported", Labels: map[string]string{"provider.cattle.io": "harvester"},
	}})
	w.must(err)
	p.Put(t, rancher.ManagedCharts, fleet.NamespaceLocal, "harvester", `{"spec":{"chart":"harvester","version":"1.0.0","repoName":"harvester-charts",
		"releaseName":"harvester","defaultNamespace":"app-harvester","targets":[{"clusterName":"local"}],"values":{"k":"one"}}}`)
	w.bundle("everywhere", fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "provider.cattle.io", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"harvester"}},
	}}})
	deployed := func(name, value string) {
		t.Helper()
		w.until("the local agent deploys "+name+" with "+value, func() bool {
			cm, err := kube.StoreOf[*corev1.ConfigMap](w.hub.Admin).Get(t.Context(), kube.Key{Namespace: "app-" + name, Name: "a"})
			return err == nil && cm.Data["k"] == value
		})
	}
	deployed("everywhere", "one")
	deployed("harvester", "one")
	w.until("Rancher shows the chart as Ready", func() bool {
		m := p.Get(t, rancher.ManagedCharts, fleet.NamespaceLocal, "harvester")
		ready, _, _ := unstructured.NestedInt64(m.Object, "status", "summary", "ready")
		return ready == 1
	})
	all, err := kube.StoreOf[*fleet.BundleDeployment](w.hub.Admin).List(t.Context(), "", "")
	w.must(err)
	theirs := w.cluster(fleet.NamespaceLocal, "imported").Status.Namespace
	for _, bd := range all {
		if theirs != "" && bd.Namespace == theirs {
			t.Errorf("%s is meant for clusters that are no Harvester", bd.Name)
		}
	}
	if p.Get(t, rancher.Workspaces, "", fleet.NamespaceDefault) != nil || w.namespace(fleet.NamespaceDefault) != nil {
		t.Error("without multi-cluster management there is no default workspace")
	}
	if c := w.cluster(fleet.NamespaceLocal, "local"); c.Spec.AgentNamespace != fleet.NamespaceLocalAgent || c.Labels["name"] != "local" {
		t.Errorf("%v %+v", c.Labels, c.Spec)
	}
	p.Patch(t, rancher.ManagedCharts, fleet.NamespaceLocal, "harvester", `{"spec":{"values":{"k":"two"}}}`)
	deployed("harvester", "two")
	p.Delete(t, rancher.ManagedCharts, fleet.NamespaceLocal, "harvester")
	w.until("the chart is uninstalled", func() bool {
		_, err := kube.StoreOf[*corev1.ConfigMap](w.hub.Admin).Get(t.Context(), kube.Key{Namespace: "app-harvester", Name: "a"})
		return kube.IsGone(err)
	})
}

// harvesterChart is a chart of one ConfigMap with a value.
func harvesterChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadFiles([]*loader.BufferedFile{
		{Name: "Chart.yaml", Data: []byte("apiVersion: v2\nname: harvester\nversion: 1.0.0\n")},
		{Name: "values.yaml", Data: []byte("k: the chart's\n")},
		{Name: "templates/a.yaml", Data: []byte(harness.ConfigMap("a", "{{ .Values.k }}"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bundle makes a Bundle with one ConfigMap in the workspace of the local cluster.
func (w *world) bundle(name string, target fleet.BundleTarget) {
	w.Helper()
	_, err := kube.StoreOf[*fleet.Bundle](w.hub.Admin).Create(w.Context(), &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceLocal, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "app-" + name},
			Resources:               []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", "one")}},
			Targets:                 []fleet.BundleTarget{target},
		},
	})
	w.must(err)
}

// agentOf runs the agent of a namespace as soon as there is a Deployment for it, as
// a kubelet does, with the account that was made for it.
func (w *world) agentOf(namespace string) {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, err := kube.StoreOf[*appsv1.Deployment](w.hub.Admin).Get(ctx, kube.Key{Namespace: namespace, Name: "fleet-agent"})
			if err == nil {
				w.runAgent(ctx, namespace)
				return
			}
			_ = kube.Sleep(ctx, 100*time.Millisecond)
		}
	}()
	w.Cleanup(func() { stop(); <-done })
}

func (w *world) runAgent(ctx context.Context, namespace string) {
	cfg := agent.Default()
	cfg.Namespace, cfg.CheckinInterval, cfg.Version, cfg.Scope = namespace, time.Second, "v0.1.0-test", namespace
	log := harness.Logger()
	own := w.hub.Account(w, namespace, "fleet-agent")
	w.hub.Allow(w, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "fleet-agent"}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	if err := agent.Run(ctx, cfg, own, logrus.NewEntry(log).WithField("site", namespace)); err != nil && ctx.Err() == nil {
		w.Errorf("the agent in %s ended with %v", namespace, err)
	}
}
