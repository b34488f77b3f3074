package controllers

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// maxObjects is up to how many Clusters, and how many BundleDeployments, have series of
// their own unless all are asked for: a Cluster has 16 series, a BundleDeployment 7.
const maxObjects = 1000

// A stateCollector shows what is in the status of objects, read when it is
// scraped: an object that is gone has no samples any more.
type stateCollector struct {
	bundles *bundle.Controllers
	all     bool // also more than maxObjects
}

// Describe sends nothing: the families depend on what there is.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends one sample for each number in the status of each object.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	s := &samples{ch: ch, now: time.Now()}
	t := c.bundles.Table()
	for _, key := range t.Bundles("") {
		if b, ok := t.Bundle(key); ok {
			s.bundle(b)
		}
	}
	if list := t.All(); c.all || len(list) <= maxObjects {
		for _, bd := range list {
			s.deployment(bd)
		}
	}
	clusters := c.bundles.Clusters()
	s.clusters(clusters)
	for _, o := range c.shown(clusters) {
		s.cluster(o)
	}
	for _, o := range c.bundles.Groups() {
		s.group(o)
	}
	for _, o := range c.bundles.Repos() {
		s.repo(o)
	}
	for _, o := range c.bundles.HelmOps() {
		s.helmOp(o)
	}
}

// shown returns the Clusters that have series of their own. Of too many it returns those
// that are not Ready, up to maxObjects.
func (c *stateCollector) shown(clusters []*fleet.Cluster) []*fleet.Cluster {
	if c.all || len(clusters) <= maxObjects {
		return clusters
	}
	var out []*fleet.Cluster
	for _, o := range clusters {
		if clusterState(o) != string(fleet.Ready) && len(out) < maxObjects {
			out = append(out, o)
		}
	}
	return out
}

type samples struct {
	ch  chan<- prometheus.Metric
	now time.Time
}

// send shows one number of one object.
func (s *samples) send(family string, value int, names, values []string) {
	s.sendFloat(family, float64(value), names, values)
}

func (s *samples) sendFloat(family string, value float64, names, values []string) {
	desc := prometheus.NewDesc("fleet_"+family, "From the status of the object.", names, nil)
	s.ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
}

// state shows 1 for the state an object is in, and 0 for the others.
func (s *samples) state(family string, all []string, is string, names, values []string) {
	for _, word := range all {
		value := 0
		if word == is {
			value = 1
		}
		s.send(family, value, append(names[:len(names):len(names)], "state"), append(values[:len(values):len(values)], word))
	}
}

func stateNames() []string {
	var out []string
	for _, state := range fleet.States {
		out = append(out, string(state))
	}
	return out
}

// bundle adds the samples of a Bundle.
func (s *samples) bundle(b *fleet.Bundle) {
	names := []string{"name", "namespace", "commit", "repo", "generation"}
	values := []string{b.Name, b.Namespace, b.Labels[fleet.LabelCommit], b.Labels[fleet.LabelRepoName], generation(b.Generation)}
	sum := &b.Status.Summary
	for family, n := range map[string]int{
		"not_ready": sum.NotReady, "wait_applied": sum.WaitApplied, "err_applied": sum.ErrApplied, "out_of_sync": sum.OutOfSync,
		"modified": sum.Modified, "ready": sum.Ready, "pending": sum.Pending, "desired_ready": sum.DesiredReady,
	} {
		s.send("bundle_"+family, n, names, values)
	}
	s.state("bundle_state", stateNames(), orReady(b.Status.Display.State), names, values)
	s.waiting(b)
	s.held("Bundle", b, b.Status.Conditions)
}

// waiting adds for how long the rollout of a Bundle has waited, while it waits.
func (s *samples) waiting(b *fleet.Bundle) {
	if !condition.IsTrue(b.Status.Conditions, fleet.ConditionWaiting) {
		return
	}
	since, err := time.Parse(time.RFC3339, condition.Find(b.Status.Conditions, fleet.ConditionWaiting).LastTransitionTime)
	if err != nil {
		return // a foreign client wrote it
	}
	s.sendFloat("bundle_waiting_seconds", s.now.Sub(since).Seconds(), []string{"name", "namespace"}, []string{b.Name, b.Namespace})
}

// held adds a sample for an object with a deletion that waits for an approval.
func (s *samples) held(kind string, o kube.Object, conditions []fleet.Condition) {
	if condition.IsTrue(conditions, fleet.ConditionDeletionHeld) {
		s.send("deletion_held", 1, []string{"kind", "name", "namespace"}, []string{kind, o.GetName(), o.GetNamespace()})
	}
}

// deployment adds the samples of a BundleDeployment.
func (s *samples) deployment(bd *fleet.BundleDeployment) {
	l := bd.Labels
	names := []string{"name", "namespace", "cluster_name", "cluster_namespace", "repo", "commit", "bundle", "bundle_namespace", "generation"}
	values := []string{bd.Name, bd.Namespace, l[fleet.LabelCluster], l[fleet.LabelClusterNamespace], l[fleet.LabelRepoName],
		l[fleet.LabelCommit], l[fleet.LabelBundleName], l[fleet.LabelBundleNamespace], generation(bd.Generation)}
	s.state("bundledeployment_state", stateNames(), bd.Status.Display.State, names, values)
}

// clusters adds the numbers of Clusters in each state, by namespace.
func (s *samples) clusters(list []*fleet.Cluster) {
	counts := map[string]map[string]int{}
	for _, c := range list {
		if counts[c.Namespace] == nil {
			counts[c.Namespace] = map[string]int{}
		}
		counts[c.Namespace][clusterState(c)]++
	}
	for namespace, n := range counts {
		for _, state := range clusterStates {
			s.send("clusters", n[state], []string{"namespace", "state"}, []string{namespace, state})
		}
	}
}

// clusterStates are the states of clusters in metrics.
var clusterStates = []string{string(fleet.NotReady), string(fleet.Ready), fleet.WaitCheckIn, fleet.Offline}

// clusterState returns the state of a Cluster, one of clusterStates.
func clusterState(c *fleet.Cluster) string {
	is := orReady(c.Status.Display.State)
	if !slices.Contains(clusterStates, is) {
		return string(fleet.NotReady)
	}
	return is
}

// cluster adds the samples of a Cluster.
func (s *samples) cluster(c *fleet.Cluster) {
	names := []string{"name", "namespace", "cluster_name", "cluster_display_name", "generation"}
	values := []string{c.Name, c.Namespace, c.Labels[fleet.LabelManagementCluster], c.Labels[fleet.LabelDisplayName], generation(c.Generation)}
	st := &c.Status
	for family, n := range map[string]int{
		"desired_ready_git_repos": st.DesiredReadyGitRepos, "ready_git_repos": st.ReadyGitRepos,
		"desired_ready_helm_ops": st.DesiredReadyHelmOps, "ready_helm_ops": st.ReadyHelmOps,
	} {
		s.send("cluster_"+family, n, names, values)
	}
	s.counts("cluster_resources_count_", "", &st.ResourceCounts, names, values)
	s.state("cluster_state", clusterStates, clusterState(c), names, values)
	s.held("Cluster", c, st.Conditions)
}

// group adds the samples of a ClusterGroup.
func (s *samples) group(g *fleet.ClusterGroup) {
	names := []string{"name", "namespace", "generation"}
	values := []string{g.Name, g.Namespace, generation(g.Generation)}
	st := &g.Status
	for family, n := range map[string]int{
		"bundle_desired_ready": st.Summary.DesiredReady, "bundle_ready": st.Summary.Ready,
		"cluster_count": st.ClusterCount, "non_ready_cluster_count": st.NonReadyClusterCount,
	} {
		s.send("cluster_group_"+family, n, names, values)
	}
	s.counts("cluster_group_resource_count_", "_", &st.ResourceCounts, names, values)
	s.state("cluster_group_state", []string{string(fleet.NotReady), string(fleet.Ready)}, readyOrNot(st.Display.State), names, values)
}

// repo adds the samples of a GitRepo.
func (s *samples) repo(r *fleet.GitRepo) {
	names := []string{"name", "namespace", "repo", "branch", "paths"}
	values := []string{r.Name, r.Namespace, r.Spec.Repo, r.Spec.Branch, strings.Join(r.Spec.Paths, ";")}
	s.send("gitrepo_desired_ready_clusters", r.Status.DesiredReadyClusters, names, values)
	s.send("gitrepo_ready_clusters", r.Status.ReadyClusters, names, values)
	unreadable := 0
	if trouble, _ := view.RepoTrouble(r); trouble == view.Unreadable {
		unreadable = 1
	}
	s.send("gitrepo_unreadable", unreadable, names, values)
	s.resources("gitrepo_resources_", &r.Status.ResourceCounts, names, values)
	s.held("GitRepo", r, r.Status.Conditions)
}

// helmOp adds the samples of a HelmOp.
func (s *samples) helmOp(op *fleet.HelmOp) {
	request := chart.RequestOf(op.Spec.Helm)
	names := []string{"name", "namespace", "repo", "chart", "version"}
	values := []string{op.Name, op.Namespace, chart.Redact(request.Repo), chart.Redact(request.Chart), request.Version}
	s.send("helmop_desired_ready_clusters", op.Status.DesiredReadyClusters, names, values)
	s.send("helmop_ready_clusters", op.Status.ReadyClusters, names, values)
	s.resources("helmop_resources_", &op.Status.ResourceCounts, names, values)
}

// resources adds the samples for the numbers of objects of a GitRepo or HelmOp.
func (s *samples) resources(prefix string, c *fleet.ResourceCounts, names, values []string) {
	for family, n := range map[string]int{
		"desired_ready": c.DesiredReady, "missing": c.Missing, "modified": c.Modified, "not_ready": c.NotReady,
		"orphaned": c.Orphaned, "ready": c.Ready, "unknown": c.Unknown, "wait_applied": c.WaitApplied,
	} {
		s.send(prefix+family, n, names, values)
	}
}

// counts adds the samples for the numbers of objects. desired joins the words of
// desiredReady: the families of clusters and groups spell it differently.
func (s *samples) counts(prefix, desired string, c *fleet.ResourceCounts, names, values []string) {
	for family, n := range map[string]int{
		"desired" + desired + "ready": c.DesiredReady, "missing": c.Missing, "modified": c.Modified, "notready": c.NotReady,
		"orphaned": c.Orphaned, "ready": c.Ready, "unknown": c.Unknown, "waitapplied": c.WaitApplied,
	} {
		s.send(prefix+family, n, names, values)
	}
}

func generation(n int64) string { return strconv.FormatInt(n, 10) }

func orReady(state string) string {
	if state == "" {
		return string(fleet.Ready)
	}
	return state
}

func readyOrNot(state string) string {
	if state == "" {
		return string(fleet.Ready)
	}
	return string(fleet.NotReady)
}
