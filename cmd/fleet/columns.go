package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	planreading "github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A row is one object in a table: its cells as in the kind's columns.
type row struct {
	workspace string
	name      string
	state     fleet.BundleState // empty for kinds that have none
	pause     *view.Pause       // who holds it back; nil: it is not paused
	cells     []string
}

// around is what a row needs besides its object.
type around struct {
	now      time.Time
	wide     bool
	bundles  map[view.Key]ready             // of each GitRepo
	own      map[view.Key][]*fleet.Bundle   // of each GitRepo, without spec and status
	held     map[view.Key]string            // by GitRepo, what its first Bundle with a removal that waits for a person says
	strays   map[view.Key]map[string]string // of each GitRepo, its Bundles that target no cluster, by name, and what they say
	holders  holders
	reported reportedFindings // with wide, of GitRepos
}

// repoState is the state of a GitRepo, which is Held while a removal of one of its bundles
// is, and not Ready while its bundles are those of another reading than its status.
func (x around) repoState(r *fleet.GitRepo) fleet.BundleState {
	state, key := view.RepoState(r), view.Key{Namespace: r.Namespace, Name: r.Name}
	if x.held[key] != "" && state != view.Unreadable {
		return view.Held
	}
	shows, known := planreading.Shows(r, x.own[key])
	if state == fleet.Ready && x.own != nil && known && !shows {
		return fleet.GitUpdating
	}
	return state
}

// repoMessage is what is wrong with a GitRepo, else its warnings; with -o wide both, and
// all that is odd in its files.
func (x around) repoMessage(r *fleet.GitRepo) string {
	text, warnings := view.RepoMessage(r), view.RepoWarnings(r)
	if _, c := view.RepoTrouble(r); c == nil {
		key := view.Key{Namespace: r.Namespace, Name: r.Name}
		text = cmp.Or(x.held[key], text, summary.OfBundles(x.strays[key]))
	}
	if !x.wide {
		return cmp.Or(text, warnings)
	}
	for _, kind := range []string{fleet.ConditionStalled, fleet.ConditionReconciling} {
		c := condition.Find(r.Status.Conditions, kind)
		switch {
		case c == nil || c.Message == "":
		case c.Message == text:
			text = x.reported.full(r, text)
		case kind == fleet.ConditionStalled && strings.Contains(warnings, " warnings: "):
			warnings = x.reported.full(r, warnings)
		}
	}
	if text != "" && warnings != "" {
		return text + "; " + warnings
	}
	return cmp.Or(text, warnings)
}

// ready is how many of all are Ready.
type ready struct{ ready, all int }

func (r ready) String() string { return fmt.Sprintf("%d/%d", r.ready, r.all) }

// withPause puts the pause of a row into its cells: a word behind its state, as
// kubectl shows a node that takes no pods, and a text behind its message.
func (r row) withPause(columns []column, now time.Time) row {
	if r.pause == nil {
		return r
	}
	for i, c := range columns {
		switch {
		case c.title == "STATE":
			r.cells[i] += "," + string(view.Paused)
		case c.title == "MESSAGE" && (r.cells[i] == "" || strings.HasSuffix(r.cells[i], "paused")):
			r.cells[i] = r.pause.Text(now)
		case c.title == "MESSAGE" && !strings.HasPrefix(r.cells[i], "paused"):
			r.cells[i] += "; " + r.pause.Text(now)
		}
	}
	return r
}

// pauseIf is who has paused an object that is paused.
func pauseIf(paused bool, o metav1.Object) *view.Pause {
	if !paused {
		return nil
	}
	p := view.PauseOf(o)
	return &p
}

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
	{title: "BRANCH", drop: 3},
	{title: "COMMIT", drop: 4},
	{title: "BUNDLES"},
	{title: "CLUSTERS"},
	{title: "STATE", state: true},
	{title: "READ", clock: true, drop: 2},
	{title: "AGE", clock: true, drop: 1},
	{title: "REPO", wide: true},
	{title: "MESSAGE", text: true},
}

var repoRow = rowOf(func(r *fleet.GitRepo, x around) row {
	branch := r.Spec.Branch
	if r.Spec.Revision != "" {
		branch = r.Spec.Revision
	}
	if branch == "" {
		branch = "master"
	}
	state := x.repoState(r)
	return row{state: state, pause: pauseIf(r.Spec.Paused, r), cells: []string{
		r.Namespace, r.Name, branch, view.Short(r.Status.Commit), x.bundles[view.Key{Namespace: r.Namespace, Name: r.Name}].String(),
		ready{r.Status.ReadyClusters, r.Status.DesiredReadyClusters}.String(), string(state),
		view.Ago(r.Status.LastPollingTime.Time, x.now), view.Ago(r.CreationTimestamp.Time, x.now), r.Spec.Repo, x.repoMessage(r),
	}}
})

var bundleColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "CLUSTERS"},
	{title: "STATE", state: true},
	{title: "COMMIT", drop: 2},
	{title: "FOR", clock: true, drop: 1},
	{title: "REPO", wide: true},
	{title: "MESSAGE", text: true},
}

var bundleRow = rowOf(func(b *fleet.Bundle, x around) row {
	state := view.BundleState(b)
	return row{state: state, pause: x.holders.ofBundle(b).Pause(), cells: []string{
		b.Namespace, b.Name, b.Status.Display.ReadyClusters, string(state), view.Short(b.Labels[fleet.LabelCommit]),
		view.Ago(view.Since(b.Status.Conditions, fleet.ConditionReady), x.now), b.Labels[fleet.LabelRepoName],
		cmp.Or(view.BundleMessage(b), view.BundleWarnings(b)),
	}}
})

var clusterColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "LABELS", drop: 4},
	{title: "BUNDLES"},
	{title: "STATE", state: true},
	{title: "SEEN", clock: true, drop: 5},
	{title: "AGENT", drop: 3},
	{title: "KUBERNETES", drop: 2},
	{title: "AGE", clock: true, drop: 1},
	{title: "NAMESPACE", wide: true},
	{title: "MESSAGE", wide: true, text: true},
}

var clusterRow = rowOf(func(c *fleet.Cluster, x around) row {
	state := view.ClusterState(c)
	return row{state: state, pause: pauseIf(c.Spec.Paused, c), cells: []string{
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
	{title: "STATE", state: true},
	{title: "AGE", clock: true, drop: 1},
	{title: "NOT-READY", wide: true},
	{title: "MESSAGE", text: true},
}

var groupRow = rowOf(func(g *fleet.ClusterGroup, x around) row {
	state := view.GroupState(g)
	st := g.Status
	return row{state: state, cells: []string{
		g.Namespace, g.Name, ready{st.ClusterCount - st.NonReadyClusterCount, st.ClusterCount}.String(), st.Display.ReadyBundles,
		string(state), view.Ago(g.CreationTimestamp.Time, x.now), strings.Join(st.NonReadyClusters, ","), view.GroupMessage(g),
	}}
})

var deploymentColumns = []column{
	{title: "WORKSPACE"},
	{title: "BUNDLE"},
	{title: "CLUSTER"},
	{title: "STATE", state: true},
	{title: "COMMIT", drop: 3},
	{title: "RELEASE", drop: 1},
	{title: "FOR", clock: true, drop: 2},
	{title: "WANTED", wide: true},
	{title: "NAMESPACE", wide: true},
	{title: "MESSAGE", text: true},
}

var deploymentRow = rowOf(func(bd *fleet.BundleDeployment, x around) row {
	state, wanted := view.DeploymentState(bd), bd.Labels[fleet.LabelCommit]
	cluster, holders := view.ClusterOf(bd), x.holders.ofDeployment(bd)
	message := view.HeldMessage(bd, holders, x.now)
	if text := view.NotLetThrough(holders.Bundle, bd); text != "" {
		state, wanted, message = fleet.OutOfSync, holders.Bundle.Labels[fleet.LabelCommit], text
	}
	var pause *view.Pause
	if bd.Spec.Paused {
		pause = cmp.Or(holders.Pause(), &view.Pause{})
	}
	return row{workspace: cluster.Namespace, state: state, pause: pause, cells: []string{
		cluster.Namespace, bd.Name, cluster.Name, string(state), view.Short(view.DeploymentCommit(bd)), bd.Status.Release,
		view.Ago(view.DeploymentSince(bd), x.now), view.Short(wanted), bd.Namespace, message,
	}}
})

var tokenColumns = []column{
	{title: "WORKSPACE"},
	{title: "NAME"},
	{title: "SECRET", drop: 2},
	{title: "EXPIRES", clock: true},
	{title: "AGE", clock: true, drop: 1},
}

var tokenRow = rowOf(func(t *fleet.ClusterRegistrationToken, x around) row {
	return row{cells: []string{
		t.Namespace, t.Name, t.Status.SecretName, view.Expiry(t, x.now), view.Ago(t.CreationTimestamp.Time, x.now),
	}}
})

// dash returns "-" for an empty text.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
