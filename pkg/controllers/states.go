package controllers

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// maxPairs is up to how many deployments each has a family of its own.
const maxPairs = 5000

// A stateCollector shows what is in the status of objects, read when it is
// scraped: an object that is gone has no samples any more.
type stateCollector struct{ bundles *bundle.Controllers }

// Describe sends nothing: the families depend on what there is.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends one sample for each number in the status of each object.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	s := &samples{ch: ch}
	t := c.bundles.Table()
	for _, key := range t.Bundles("") {
		if b, ok := t.Bundle(key); ok {
			s.bundle(b)
		}
	}
	if all := t.All(); len(all) <= maxPairs {
		for _, bd := range all {
			s.deployment(bd)
		}
	}
	for _, o := range c.bundles.Clusters() {
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

type samples struct{ ch chan<- prometheus.Metric }

// send shows one number of one object.
func (s *samples) send(family string, value int, names, values []string) {
	desc := prometheus.NewDesc("fleet_"+family, "From the status of the object.", names, nil)
	s.ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), values...)
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
}

// deployment adds the samples of a BundleDeployment.
func (s *samples) deployment(bd *fleet.BundleDeployment) {
	l := bd.Labels
	names := []string{"name", "namespace", "cluster_name", "cluster_namespace", "repo", "commit", "bundle", "bundle_namespace", "generation"}
	values := []string{bd.Name, bd.Namespace, l[fleet.LabelCluster], l[fleet.LabelClusterNamespace], l[fleet.LabelRepoName],
		l[fleet.LabelCommit], l[fleet.LabelBundleName], l[fleet.LabelBundleNamespace], generation(bd.Generation)}
	s.state("bundledeployment_state", stateNames(), bd.Status.Display.State, names, values)
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
	states := []string{string(fleet.NotReady), string(fleet.Ready), fleet.WaitCheckIn, fleet.Offline}
	is := orReady(st.Display.State)
	if is != string(fleet.Ready) && is != fleet.WaitCheckIn && is != fleet.Offline {
		is = string(fleet.NotReady)
	}
	s.state("cluster_state", states, is, names, values)
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
