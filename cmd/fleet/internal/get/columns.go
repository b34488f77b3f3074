package get

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
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
type rowContext struct {
	now           time.Time
	wide          bool
	bundles       map[view.Key]printer.Ready     // of each GitRepo
	bundlesByRepo map[view.Key][]*fleet.Bundle   // of each GitRepo, without spec and status
	holdReasons   map[view.Key]string            // by GitRepo, what its first Bundle with a removal that waits for a person says
	strays        map[view.Key]map[string]string // of each GitRepo, its Bundles that target no cluster, by name, and what they say
	uncommitted   map[view.Key]string            // by GitRepo, why it does not commit what ImageScans have found
	holders       holders
	reported      client.ReportedFindings // with wide, of GitRepos
}

// repoState is the state of a GitRepo, which is Held while a removal of one of its bundles
// is, and not Ready while its bundles are those of another reading than its status.
func (rc rowContext) repoState(r *fleet.GitRepo) fleet.BundleState {
	state, key := view.RepoState(r), view.Key{Namespace: r.Namespace, Name: r.Name}
	if rc.holdReasons[key] != "" && state != view.Unreadable {
		return view.Held
	}
	shows, known := planreading.Shows(r, rc.bundlesByRepo[key])
	if state == fleet.Ready && rc.bundlesByRepo != nil && known && !shows {
		return fleet.GitUpdating
	}
	return state
}

// repoMessage is what is wrong with a GitRepo, else its warnings; with -o wide both, and
// all that is odd in its files.
func (rc rowContext) repoMessage(r *fleet.GitRepo) string {
	text, warnings := view.RepoMessage(r), view.RepoWarnings(r)
	if _, c := view.RepoTrouble(r); c == nil {
		key := view.Key{Namespace: r.Namespace, Name: r.Name}
		text = cmp.Or(rc.holdReasons[key], text, summary.OfBundles(rc.strays[key]))
	}
	if !rc.wide {
		return cmp.Or(text, warnings)
	}
	for _, kind := range []string{fleet.ConditionStalled, fleet.ConditionReconciling} {
		c := condition.Find(r.Status.Conditions, kind)
		switch {
		case c == nil || c.Message == "":
		case c.Message == text:
			text = rc.reported.Full(r, text)
		case kind == fleet.ConditionStalled && strings.Contains(warnings, " warnings: "):
			warnings = rc.reported.Full(r, warnings)
		}
	}
	if text != "" && warnings != "" {
		return text + "; " + warnings
	}
	return cmp.Or(text, warnings)
}

// withPause puts the pause of a row into its cells: a word behind its state, as
// kubectl shows a node that takes no pods, and a text behind its message.
func (r row) withPause(columns []printer.Column, now time.Time) row {
	if r.pause == nil {
		return r
	}
	for i, c := range columns {
		switch {
		case c.Title == "STATE":
			r.cells[i] += "," + string(view.Paused)
		case c.Title == "MESSAGE" && (r.cells[i] == "" || strings.HasSuffix(r.cells[i], "paused")):
			r.cells[i] = r.pause.Text(now)
		case c.Title == "MESSAGE" && !strings.HasPrefix(r.cells[i], "paused"):
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

// A rowFunc makes a row of an object.
type rowFunc func(*unstructured.Unstructured, rowContext) (row, error)

// rowOf makes a rowFunc of a function for the kind's own type.
func rowOf[T any](f func(*T, rowContext) row) rowFunc {
	return func(u *unstructured.Unstructured, x rowContext) (row, error) {
		o, err := client.Convert[T](u)
		if err != nil {
			return row{}, err
		}
		r := f(o, x)
		r.name = u.GetName()
		if r.workspace == "" {
			r.workspace = u.GetNamespace()
		}
		for i, c := range r.cells[:len(r.cells)-1] {
			r.cells[i] = printer.OrDash(c)
		}
		return r, nil
	}
}

// kindColumns are the columns of each kind, by its name in the plural, and kindRows the
// functions that fill them.
var (
	kindColumns = map[string][]printer.Column{
		"repos": repoColumns, "helmops": helmOpColumns, "bundles": bundleColumns, "clusters": clusterColumns, "groups": groupColumns,
		"deployments": deploymentColumns, "imagescans": imageScanColumns, "tokens": tokenColumns,
	}
	kindRows = map[string]rowFunc{
		"repos": repoRow, "helmops": helmOpRow, "bundles": bundleRow, "clusters": clusterRow, "groups": groupRow, "deployments": deploymentRow,
		"imagescans": imageScanRow, "tokens": tokenRow,
	}
)

var repoColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "BRANCH", Drop: 3},
	{Title: "COMMIT", Drop: 4},
	{Title: "BUNDLES"},
	{Title: "CLUSTERS"},
	{Title: "STATE", State: true},
	{Title: "READ", Clock: true, Drop: 2},
	{Title: "AGE", Clock: true, Drop: 1},
	{Title: "REPO", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var repoRow = rowOf(func(r *fleet.GitRepo, x rowContext) row {
	branch := r.Spec.Branch
	if r.Spec.Revision != "" {
		branch = r.Spec.Revision
	}
	if branch == "" {
		branch = "master"
	}
	state := x.repoState(r)
	return row{state: state, pause: pauseIf(r.Spec.Paused, r), cells: []string{
		r.Namespace, r.Name, branch, view.ShortCommit(r.Status.Commit), x.bundles[view.Key{Namespace: r.Namespace, Name: r.Name}].String(),
		printer.Ready{Ready: r.Status.ReadyClusters, All: r.Status.DesiredReadyClusters}.String(), string(state),
		view.Ago(r.Status.LastPollingTime.Time, x.now), view.Ago(r.CreationTimestamp.Time, x.now), r.Spec.Repo, x.repoMessage(r),
	}}
})

var helmOpColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "CHART", Drop: 3},
	{Title: "VERSION", Drop: 2},
	{Title: "CLUSTERS"},
	{Title: "STATE", State: true},
	{Title: "AGE", Clock: true, Drop: 1},
	{Title: "WANTED", Wide: true},
	{Title: "REPO", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var helmOpRow = rowOf(func(op *fleet.HelmOp, x rowContext) row {
	helm := cmp.Or(op.Spec.Helm, &fleet.HelmOptions{})
	state := view.HelmOpState(op)
	return row{state: state, pause: pauseIf(op.Spec.Paused, op), cells: []string{
		op.Namespace, op.Name, chart.Redact(cmp.Or(helm.Chart, helm.Repo)), op.Status.Version,
		printer.Ready{Ready: op.Status.ReadyClusters, All: op.Status.DesiredReadyClusters}.String(), string(state),
		view.Ago(op.CreationTimestamp.Time, x.now), helm.Version, chart.Redact(helm.Repo), view.HelmOpMessage(op),
	}}
})

var imageScanColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "IMAGE", Drop: 3},
	{Title: "TAG"},
	{Title: "STATE", State: true},
	{Title: "SCANNED", Clock: true, Drop: 1},
	{Title: "REPO", Drop: 2},
	{Title: "MARKER", Wide: true},
	{Title: "DIGEST", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var imageScanRow = rowOf(func(s *fleet.ImageScan, x rowContext) row {
	state := view.ImageScanState(s)
	repo := view.Key{Namespace: s.Namespace, Name: s.Spec.GitRepoName}
	return row{state: state, pause: pauseIf(s.Spec.Suspend, s), cells: []string{
		s.Namespace, s.Name, s.Spec.Image, s.Status.LatestTag, string(state), view.Ago(s.Status.LastScanTime.Time, x.now), s.Spec.GitRepoName,
		s.Spec.TagName, s.Status.LatestDigest, view.ImageScanMessage(s, x.uncommitted[repo]),
	}}
})

var bundleColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "CLUSTERS"},
	{Title: "STATE", State: true},
	{Title: "COMMIT", Drop: 2},
	{Title: "FOR", Clock: true, Drop: 1},
	{Title: "REPO", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var bundleRow = rowOf(func(b *fleet.Bundle, x rowContext) row {
	state := view.BundleState(b)
	return row{state: state, pause: x.holders.ofBundle(b).Pause(), cells: []string{
		b.Namespace, b.Name, b.Status.Display.ReadyClusters, string(state), view.ShortCommit(b.Labels[fleet.LabelCommit]),
		view.Ago(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady), x.now), b.Labels[fleet.LabelRepoName],
		cmp.Or(view.BundleMessage(b), view.BundleWarnings(b)),
	}}
})

var clusterColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "LABELS", Drop: 4},
	{Title: "BUNDLES"},
	{Title: "STATE", State: true},
	{Title: "SEEN", Clock: true, Drop: 5},
	{Title: "AGENT", Drop: 3},
	{Title: "KUBERNETES", Drop: 2},
	{Title: "AGE", Clock: true, Drop: 1},
	{Title: "NAMESPACE", Wide: true},
	{Title: "MESSAGE", Wide: true, Text: true},
}

var clusterRow = rowOf(func(c *fleet.Cluster, x rowContext) row {
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

var groupColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "CLUSTERS"},
	{Title: "BUNDLES"},
	{Title: "STATE", State: true},
	{Title: "AGE", Clock: true, Drop: 1},
	{Title: "NOT-READY", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var groupRow = rowOf(func(g *fleet.ClusterGroup, x rowContext) row {
	state := view.GroupState(g)
	st := g.Status
	return row{state: state, cells: []string{
		g.Namespace, g.Name, printer.Ready{Ready: st.ClusterCount - st.NonReadyClusterCount, All: st.ClusterCount}.String(), st.Display.ReadyBundles,
		string(state), view.Ago(g.CreationTimestamp.Time, x.now), strings.Join(st.NonReadyClusters, ","), view.GroupMessage(g),
	}}
})

var deploymentColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "BUNDLE"},
	{Title: "CLUSTER"},
	{Title: "STATE", State: true},
	{Title: "COMMIT", Drop: 3},
	{Title: "RELEASE", Drop: 1},
	{Title: "FOR", Clock: true, Drop: 2},
	{Title: "WANTED", Wide: true},
	{Title: "NAMESPACE", Wide: true},
	{Title: "MESSAGE", Text: true},
}

var deploymentRow = rowOf(func(bd *fleet.BundleDeployment, x rowContext) row {
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
		cluster.Namespace, bd.Name, cluster.Name, string(state), view.ShortCommit(view.DeploymentCommit(bd)), bd.Status.Release,
		view.Ago(view.DeploymentSince(bd), x.now), view.ShortCommit(wanted), bd.Namespace, message,
	}}
})

var tokenColumns = []printer.Column{
	{Title: "WORKSPACE"},
	{Title: "NAME"},
	{Title: "SECRET", Drop: 2},
	{Title: "EXPIRES", Clock: true},
	{Title: "AGE", Clock: true, Drop: 1},
}

var tokenRow = rowOf(func(t *fleet.ClusterRegistrationToken, x rowContext) row {
	return row{cells: []string{
		t.Namespace, t.Name, t.Status.SecretName, view.Expiry(t, x.now), view.Ago(t.CreationTimestamp.Time, x.now),
	}}
})
