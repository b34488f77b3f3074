// Package fleetstate holds every Bundle on every cluster, in memory, and when each
// agent checked in last. Informer handlers and the answers to our own writes feed it;
// loops read it. A change of one deployment changes one placement and the counters that
// include it, however large the fleet is.
//
// The State decides nothing and writes nothing. What it returns is shared: callers must
// not change it.
package fleetstate

import (
	"strconv"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A State may be used by several goroutines.
type State struct {
	*core
	bundleTable
	clusterTable
	deploymentTable
	repoTable
}

// The tables of a State. They share their rows and its mutex.
type (
	bundleTable     struct{ *core }
	clusterTable    struct{ *core }
	deploymentTable struct{ *core }
	repoTable       struct{ *core }
)

// core is shared by the tables.
type core struct {
	mu      sync.Mutex
	ownID   string
	checkin time.Duration
	now     func() time.Time
	bundleRows
	clusterRows
	contentUses
}

// bundleRows are Bundles, what they are made of, and their deployments.
type bundleRows struct {
	bundles     map[kube.Key]*bundleRow
	repos       map[kube.Key]*repoRow
	deployments map[kube.Key]*placement // by BundleDeployment
	departed    deletedUIDs
	spread      map[string]int   // deployments by the namespace of their Bundles
	targets     []rollout.Target // room for BundleFacts
	loaded      bool             // all Bundles of the start are here
	settled     bool
}

// clusterRows are Clusters and where they are.
type clusterRows struct {
	clusters    map[kube.Key]*clusterRow
	members     map[string][]kube.Key                // Clusters by namespace, sorted
	moves       uint64                               // what Moves returns
	groups      map[string]*workspace                // by namespace
	onCluster   map[kube.Key]map[*placement]bool     // by Cluster, known or not
	rules       map[string]map[string]*schedule.Rule // Schedules by namespace and name
	windows     map[string]schedule.Windows          // decoded, by the text of their rules
	spaceOwners registration.Owners                  // nil: see FollowNamespaces
	expected    map[string]kube.Key                  // Clusters by the namespace that the naming rule gives them, with spaceOwners
}

// contentUses are who needs a content, by its id.
type contentUses struct {
	contents map[string]map[kube.Key]bool // Bundles that need it
	named    map[string]map[kube.Key]bool // Bundles that name it
	uses     map[string]int               // deployments that hold it
}

// New returns an empty table. ownID is this installation's id; checkin is the interval
// of agents that have no other instruction. Package heartbeat says when a check-in is
// missed.
func New(ownID string, checkin time.Duration, now func() time.Time) *State {
	t := &core{
		ownID: ownID, checkin: checkin, now: now,
		bundleRows: bundleRows{
			bundles:     map[kube.Key]*bundleRow{},
			repos:       map[kube.Key]*repoRow{},
			deployments: map[kube.Key]*placement{},
			spread:      map[string]int{},
		},
		clusterRows: clusterRows{
			clusters:  map[kube.Key]*clusterRow{},
			members:   map[string][]kube.Key{},
			groups:    map[string]*workspace{},
			onCluster: map[kube.Key]map[*placement]bool{},
			rules:     map[string]map[string]*schedule.Rule{},
			windows:   map[string]schedule.Windows{},
		},
		contentUses: contentUses{
			contents: map[string]map[kube.Key]bool{},
			named:    map[string]map[kube.Key]bool{},
			uses:     map[string]int{},
		},
	}
	return &State{core: t, bundleTable: bundleTable{t}, clusterTable: clusterTable{t}, deploymentTable: deploymentTable{t}, repoTable: repoTable{t}}
}

// A Desired is what the last plan of a Bundle wants on one cluster.
type Desired struct {
	// ID is the deployment id; empty if the version cannot be rendered.
	ID string
	// Held is why the version, or the deployment itself, is not written yet.
	Held string
	// Broken is why the version cannot be rendered or written.
	Broken string
	// Coming reports that the manager will create the missing deployment without a user's
	// action: the withdrawal of what it replaces waits for it.
	Coming bool
	// Paused reports that the Bundle or the cluster is paused.
	Paused bool
	// Kept reports that the deployment keeps its release, and so its version, until a user
	// or the deletion budget permits the replacement. Held has the message.
	Kept bool
	// Barred reports that the manager cannot write the deployment. It is then not Ready,
	// whatever its agent reports. Held has the reason.
	Barred bool
	// Closed is why the agent may not deploy the version now: the cluster is outside of its
	// change windows.
	Closed string
}

// A placement is one Bundle on one cluster.
type placement struct {
	bundle, cluster kube.Key
	bd              *fleet.BundleDeployment // nil: there is none
	want            *Desired                // nil: not desired
	view            summary.Deployment      // only where desired
	counted         bool                    // in the Holds of its Bundle
}

// isPendingCreate reports whether the deployment must still be created: until then
// other Bundles of the repository are not withdrawn from the cluster.
func (p *placement) isPendingCreate() bool { return p.bd == nil && p.want != nil && p.want.Coming }

// counts holds the number of deployments in each state.
type counts [8]int

// add adds n to the number of deployments in a state.
func (c *counts) add(s fleet.BundleState, n int) { c[s.Rank()] += n }

// final reports whether no deployment is in a transitional state.
func (c *counts) final() bool {
	for _, s := range []fleet.BundleState{fleet.WaitApplied, fleet.Pending, fleet.OutOfSync, fleet.NotReady} {
		if c[s.Rank()] > 0 {
			return false
		}
	}
	return true
}

// placementOf returns the placement of a Bundle on a cluster, and creates it if it is
// missing.
func (cr *core) placementOf(bundle, cluster kube.Key) *placement {
	row := cr.bundleRowOf(bundle)
	c := row.cells[cluster]
	if c == nil {
		c = &placement{bundle: bundle, cluster: cluster}
		row.cells[cluster] = c
		if cr.onCluster[cluster] == nil {
			cr.onCluster[cluster] = map[*placement]bool{}
		}
		cr.onCluster[cluster][c] = true
	}
	return c
}

// dropPlacement removes a placement that has no deployment and is not desired.
func (cr *core) dropPlacement(c *placement) {
	if c.bd != nil || c.want != nil {
		return
	}
	if row := cr.bundles[c.bundle]; row != nil {
		delete(row.cells, c.cluster)
		cr.dropBundle(row)
	}
	delete(cr.onCluster[c.cluster], c)
	if len(cr.onCluster[c.cluster]) == 0 {
		delete(cr.onCluster, c.cluster)
	}
}

// refreshView computes the view of a placement, and updates the counters.
func (cr *core) refreshView(c *placement, changed *Changes) {
	if row := cr.bundles[c.bundle]; row != nil {
		row.pending.count(c)
	}
	old, counted := c.view, c.view.State != ""
	c.view = summary.Deployment{}
	if c.want != nil {
		c.view = cr.computeView(c)
	}
	if sameView(&old, &c.view) {
		return
	}
	cr.countPlacement(c, old.State, counted, -1)
	cr.countPlacement(c, c.view.State, c.want != nil, 1)
	cr.markChanged(c, changed)
}

// computeView returns a placement as summaries show it.
func (cr *core) computeView(c *placement) summary.Deployment {
	d := summary.Deployment{Bundle: c.bundle.Name, Cluster: c.cluster.String()}
	d.Repo, d.HelmOp = cr.owners(c.bundle)
	if c.bd == nil {
		d = summary.Pending(d, c.want.Held)
	} else {
		d = summary.Observe(d, c.bd, c.want.ID, c.want.Held)
		if d.State == fleet.WaitApplied && d.Message == "" {
			d.Message = c.want.Closed // the agent has not reported it yet
		}
		if c.want.Barred {
			d = summary.Unwritable(d, c.want.Held)
		}
	}
	if c.want.Broken != "" {
		d = summary.Uncomputable(d, c.want.Broken)
	}
	return d
}

// countPlacement adds n to all counters that include a placement in state s, if counted
// is true.
func (cr *core) countPlacement(c *placement, s fleet.BundleState, counted bool, n int) {
	if !counted {
		return
	}
	row := cr.bundleRowOf(c.bundle)
	row.counts.add(s, n)
	if repo := cr.repos[row.repo]; repo != nil {
		repo.counts.add(s, n)
	}
	if cl := cr.clusters[c.cluster]; cl != nil {
		cl.counts.add(s, n)
		cl.sum = nil
	}
}

// markChanged marks the statuses of all objects that show a placement as changed.
func (cr *core) markChanged(c *placement, changed *Changes) {
	row := cr.bundleRowOf(c.bundle)
	changed.add(Subject{KindBundle, c.bundle}, row.counts.final())
	if repo := cr.repos[row.repo]; repo != nil {
		changed.add(Subject{KindGitRepo, row.repo}, repo.counts.final())
	}
	cl := cr.clusters[c.cluster]
	if cl == nil {
		return
	}
	cl.sum = nil
	changed.add(Subject{KindCluster, c.cluster}, cl.counts.final())
	for _, g := range cl.place.Groups {
		changed.add(Subject{KindGroup, kube.Key{Namespace: c.cluster.Namespace, Name: g.Name}}, cl.counts.final())
	}
}

// Kinds of subjects.
const (
	KindBundle  = "Bundle"
	KindGitRepo = "GitRepo"
	KindHelmOp  = "HelmOp"
	KindCluster = "Cluster"
	KindGroup   = "ClusterGroup"
)

// A Subject is an object whose status is made from the table.
type Subject struct {
	Kind string
	Key  kube.Key
}

// Changes lists what the controllers must reconcile after a change of the table.
type Changes struct {
	// Status are the objects whose status may have changed. The value is true if the state
	// is final: it will not change without another event.
	Status map[Subject]bool
	// Plan are the Bundles that have to be planned again.
	Plan []kube.Key
	// Promoted are Bundles for which the caller must call Overdue after
	// rollout.SilentAfter.
	Promoted []kube.Key
	// BackOnline are Clusters that were offline and whose agent reports again.
	BackOnline []Return
	// Unused are contents that no deployment holds any more, that no Bundle names
	// any more, or whose credentials may have become superfluous somewhere.
	Unused []string
}

// A Return is a Cluster whose agent is back.
type Return struct {
	Cluster kube.Key
	Away    time.Duration // how long it did not report
}

// add marks the status of an object as changed.
func (c *Changes) add(s Subject, final bool) {
	if c.Status == nil {
		c.Status = make(map[Subject]bool, 4)
	}
	c.Status[s] = final
}

// newer reports whether resourceVersion a is later than b. Versions of one kind
// are numbers that grow.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA != nil || errB != nil || x > y
}

// CompareKeys orders keys by namespace and name.
func CompareKeys(a, b kube.Key) int {
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}
