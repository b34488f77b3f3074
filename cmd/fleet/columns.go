package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A row is one object in a table: its cells as in the kind's columns.
type row struct {
	workspace string
	name      string
	state     fleet.BundleState // empty for kinds that have none
	cells     []string
}

// around is what a row needs besides its object.
type around struct {
	now     time.Time
	bundles map[view.Key]ready // of each GitRepo
}

// ready is how many of all are Ready.
type ready struct{ ready, all int }

func (r ready) String() string { return fmt.Sprintf("%d/%d", r.ready, r.all) }

type rowFunc func(*unstructured.Unstructured, around) (row, error)

// rowOf makes a rowFunc of a function for the kind's own type.
func rowOf[T any](f func(*T, around) row) rowFunc {
	return func(u *unstructured.Unstructured, x around) (row, error) {
		o, err := as[T](u)
		if err != nil {
			return row{}, err
		}
		r := f(o, x)
		r.name = u.GetName()
		if r.workspace == "" {
			r.workspace = u.GetNamespace()
		}
		for i, c := range r.cells[:len(r.cells)-1] {
			r.cells[i] = dash(c)
		}
		return r, nil
	}
}

var repoColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "BRANCH"},
	{title: "COMMIT"},
	{title: "BUNDLES"},
	{title: "CLUSTERS"},
	{title: "STATE"},
	{title: "READ", clock: true},
	{title: "AGE", clock: true},
	{title: "REPO", wide: true},
	{title: "MESSAGE", wide: true},
}

var repoRow = rowOf(func(r *fleet.GitRepo, x around) row {
	branch := r.Spec.Branch
	if r.Spec.Revision != "" {
		branch = r.Spec.Revision
	}
	if branch == "" {
		branch = "master"
	}
	state := view.RepoState(r)
	return row{state: state, cells: []string{
		r.Namespace, r.Name, branch, view.Short(r.Status.Commit), x.bundles[view.Key{Namespace: r.Namespace, Name: r.Name}].String(),
		ready{r.Status.ReadyClusters, r.Status.DesiredReadyClusters}.String(), string(state),
		view.Ago(r.Status.LastPollingTime.Time, x.now), view.Ago(r.CreationTimestamp.Time, x.now), r.Spec.Repo, view.RepoMessage(r),
	}}
})

var bundleColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "CLUSTERS"},
	{title: "STATE"},
	{title: "COMMIT"},
	{title: "FOR", clock: true},
	{title: "REPO", wide: true},
	{title: "MESSAGE"},
}

var bundleRow = rowOf(func(b *fleet.Bundle, x around) row {
	state := view.BundleState(b)
	return row{state: state, cells: []string{
		b.Namespace, b.Name, b.Status.Display.ReadyClusters, string(state), view.Short(b.Labels[fleet.LabelCommit]),
		view.Ago(view.Since(b.Status.Conditions, fleet.ConditionReady), x.now), b.Labels[fleet.LabelRepoName], view.BundleMessage(b),
	}}
})

var clusterColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "LABELS"},
	{title: "BUNDLES"},
	{title: "STATE"},
	{title: "SEEN", clock: true},
	{title: "AGENT"},
	{title: "KUBERNETES"},
	{title: "AGE", clock: true},
	{title: "NAMESPACE", wide: true},
	{title: "MESSAGE", wide: true},
}

var clusterRow = rowOf(func(c *fleet.Cluster, x around) row {
	state := view.ClusterState(c)
	return row{state: state, cells: []string{
		c.Namespace, c.Name, view.OwnLabels(c), c.Status.Display.ReadyBundles, string(state),
		view.Ago(c.Status.Agent.LastSeen.Time, x.now), c.Status.Agent.Version, c.Status.Agent.Kubernetes,
		view.Ago(c.CreationTimestamp.Time, x.now), c.Status.Namespace, clusterMessage(c, x.now),
	}}
})

// clusterMessage is what is wrong with a cluster, and else when its agent comes next,
// if that is not all the time.
func clusterMessage(c *fleet.Cluster, now time.Time) string {
	message := view.ClusterMessage(c)
	if next := view.NextVisit(c); message == "" && !next.IsZero() {
		return "connects next at " + view.Clock(next, now)
	}
	return message
}

var groupColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "CLUSTERS"},
	{title: "BUNDLES"},
	{title: "STATE"},
	{title: "AGE", clock: true},
	{title: "NOT-READY", wide: true},
}

var groupRow = rowOf(func(g *fleet.ClusterGroup, x around) row {
	state := view.GroupState(g)
	st := g.Status
	return row{state: state, cells: []string{
		g.Namespace, g.Name, ready{st.ClusterCount - st.NonReadyClusterCount, st.ClusterCount}.String(), st.Display.ReadyBundles,
		string(state), view.Ago(g.CreationTimestamp.Time, x.now), strings.Join(st.NonReadyClusters, ","),
	}}
})

var deploymentColumns = []column{
	{title: "WORKSPACE"},
	{title: "BUNDLE"},
	{title: "CLUSTER"},
	{title: "STATE"},
	{title: "COMMIT"},
	{title: "RELEASE"},
	{title: "FOR", clock: true},
	{title: "WANTED", wide: true},
	{title: "NAMESPACE", wide: true},
	{title: "MESSAGE"},
}

var deploymentRow = rowOf(func(bd *fleet.BundleDeployment, x around) row {
	state := view.DeploymentState(bd)
	cluster := view.ClusterOf(bd)
	return row{workspace: cluster.Namespace, state: state, cells: []string{
		cluster.Namespace, bd.Name, cluster.Name, string(state), view.Short(view.DeploymentCommit(bd)), bd.Status.Release,
		view.Ago(view.DeploymentSince(bd), x.now), view.Short(bd.Labels[fleet.LabelCommit]), bd.Namespace, view.DeploymentMessage(bd),
	}}
})

var tokenColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "SECRET"},
	{title: "EXPIRES", clock: true},
	{title: "AGE", clock: true},
}

var tokenRow = rowOf(func(t *fleet.ClusterRegistrationToken, x around) row {
	return row{cells: []string{
		t.Namespace, t.Name, t.Status.SecretName, view.Expiry(t, x.now), view.Ago(t.CreationTimestamp.Time, x.now),
	}}
})

// dash stands for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
