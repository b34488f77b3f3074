package sources

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	metrics "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// resourceStates are the ends of families that count objects by state, in the three spellings
// of Rancher Fleet.
const (
	resourceStates = "desired_ready missing modified not_ready orphaned ready unknown wait_applied"
	clusterStates  = "desiredready missing modified notready orphaned ready unknown waitapplied"
	groupStates    = "desired_ready missing modified notready orphaned ready unknown waitapplied"
)

// families are those of Rancher Fleet v0.16, with its labels, and the process that serves
// them. ends, separated by blanks, follow prefix.
var families = []struct {
	process, prefix, ends, labels string
}{
	{"fleet-controller", "fleet_bundle_", "not_ready wait_applied err_applied out_of_sync modified ready pending desired_ready", "name namespace commit repo generation"},
	{"fleet-controller", "fleet_bundle_", "state", "name namespace commit repo generation state"},
	{"fleet-controller", "fleet_bundledeployment_", "state", "name namespace cluster_name cluster_namespace repo commit bundle bundle_namespace generation state"},
	{"fleet-controller", "fleet_cluster_", "desired_ready_git_repos ready_git_repos desired_ready_helm_ops ready_helm_ops", "name namespace cluster_name cluster_display_name generation"},
	{"fleet-controller", "fleet_cluster_resources_count_", clusterStates, "name namespace cluster_name cluster_display_name generation"},
	{"fleet-controller", "fleet_cluster_", "state", "name namespace cluster_name cluster_display_name generation state"},
	{"fleet-controller", "fleet_cluster_group_", "bundle_desired_ready bundle_ready cluster_count non_ready_cluster_count", "name namespace generation"},
	{"fleet-controller", "fleet_cluster_group_resource_count_", groupStates, "name namespace generation"},
	{"fleet-controller", "fleet_cluster_group_", "state", "name namespace generation state"},
	{"fleet-controller", "fleet_gitrepo_resources_", resourceStates, "name namespace repo branch paths"},
	{"fleet-controller", "fleet_gitrepo_", "desired_ready_clusters ready_clusters", "name namespace repo branch paths"},
	{"fleet-controller", "fleet_helmop_resources_", resourceStates, "name namespace repo chart version"},
	{"fleet-controller", "fleet_helmop_", "desired_ready_clusters ready_clusters", "name namespace repo chart version"},
	{"gitjob", "fleet_", "gitjobs_created_success_total gitjob_duration_seconds gitjob_duration_seconds_gauge", "name namespace"},
	{"gitjob", "fleet_gitrepo_fetch_latest_commit_", "success_total duration_seconds", "name namespace"},
	// Those of this project that every process serves.
	{"fleet-controller", "fleet_", "reconcile_seconds", "loop result"},
	{"gitjob", "fleet_", "reconcile_seconds", "loop result"},
	{"helmops", "fleet_", "reconcile_seconds", "loop result"},
	{"fleet-controller", "fleet_", "queue_length", "loop"},
	{"gitjob", "fleet_", "queue_length", "loop"},
	{"helmops", "fleet_", "queue_length", "loop"},
	{"fleet-controller", "fleet_", "api_requests_total", "method code"},
	{"gitjob", "fleet_", "api_requests_total", "method code"},
	{"helmops", "fleet_", "api_requests_total", "method code"},
	{"fleet-controller", "fleet_", "clusters", "namespace state"},
}

// The processes of the manager serve the metrics of Rancher Fleet under its names, with its
// labels, and the series of a deleted object end.
func TestMetrics(t *testing.T) {
	w := harness.Open(t)
	charts := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0")})
	repo := w.Repository("measured")
	repo.Write("app/app.yaml", harness.ConfigMapYAML("measured", "one"))
	repo.Write("app/fleet.yaml", "defaultNamespace: measured\n")
	group := harness.Create(w, w.Local, &fleet.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "measured"},
		Spec:       fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}},
	})
	t.Cleanup(func() { harness.Delete(w, w.Local, group) })
	op := helmOp(t, w, "measured-op", func(s *fleet.HelmOpSpec) {
		s.Helm = &fleet.HelmOptions{Repo: charts.URL, Chart: "app", Version: "1.0.0"}
	})
	repo.EventuallyReady(deploy(t, w, repo, func(*fleet.GitRepoSpec) {}), 2)
	harness.Eventually(w, "the HelmOp", func() string { return opState(w, op.Name) }, "1.0.0 2/2 True")

	served := map[string]map[string]*metrics.MetricFamily{}
	for _, process := range []string{"fleet-controller", "gitjob", "helmops"} {
		served[process] = w.Metrics(process)
	}
	for _, f := range families {
		want := strings.Fields(f.labels)
		slices.Sort(want)
		for end := range strings.FieldsSeq(f.ends) {
			family := served[f.process][f.prefix+end]
			if family == nil {
				t.Errorf("%s does not serve %s%s", f.process, f.prefix, end)
				continue
			}
			for _, series := range family.Metric {
				if got := labelsOf(series); !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
					t.Errorf("%s of %s: want labels %q, got %v", family.GetName(), f.process, want, got)
				}
			}
		}
	}

	ready := func(family, name string) string {
		return seriesOf(w.Metrics("fleet-controller")[family], map[string]string{"namespace": fleet.NamespaceDefault, "name": name, "state": "Ready"})
	}
	harness.Eventually(w, "the GitRepo", func() string { return ready("fleet_gitrepo_ready_clusters", repo.Name) }, "2")
	harness.Eventually(w, "its Bundle", func() string { return ready("fleet_bundle_state", repo.Name+"-app") }, "1")
	harness.Eventually(w, "the HelmOp", func() string { return ready("fleet_helmop_ready_clusters", op.Name) }, "2")
	harness.Eventually(w, "the group", func() string { return ready("fleet_cluster_group_cluster_count", group.Name) }, "2")
	harness.Delete(w, w.Local, op)
	harness.Eventually(w, "the deleted HelmOp", func() string { return ready("fleet_helmop_ready_clusters", op.Name) }, "")
}

func labelsOf(m *metrics.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.Label {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// seriesOf returns the value of the gauge of a family whose labels do not contradict; empty
// if there is none.
func seriesOf(family *metrics.MetricFamily, labels map[string]string) string {
	for _, m := range family.GetMetric() {
		has := labelsOf(m)
		contradicts := func(name string) bool { value, ok := has[name]; return ok && value != labels[name] }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), contradicts) {
			return strconv.FormatFloat(m.GetGauge().GetValue(), 'f', -1, 64)
		}
	}
	return ""
}
