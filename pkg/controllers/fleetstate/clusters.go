package fleetstate

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

type clusterRow struct {
	obj        *fleet.Cluster
	place      *deployment.Place // never changed, only replaced
	noPlace    string            // why it has no namespace for deployments
	other      string            // id of another manager that has marked it
	heartbeat  Heartbeat
	lastAlive  time.Time // when the agent was last known to live, by our clock
	life       summary.AgentLiveness
	pendingAck pendingAck
	counts     counts
	sum        *fleet.BundleSummary // nil: to be counted again
	shown      *Candidate           // what candidate returned last
}

// A workspace is the cluster groups of one namespace.
type workspace struct {
	groups   map[string]*fleet.ClusterGroup
	compiled target.Groups
}

// A Candidate is a cluster that a Bundle may be meant for.
type Candidate struct {
	Key   kube.Key
	Place *deployment.Place // its Namespace is empty while the cluster has none
	// NoPlace is why the cluster has no namespace; empty where it has one.
	NoPlace string
	// Other is the id of another manager that looks after the cluster.
	Other    string
	Offline  bool
	Silent   bool // it has left a promotion unanswered for too long
	Deleting bool
	Emptied  bool // a user has ordered that everything is withdrawn
	// Protocol is the protocol of the agent; Unseen reports that it has never reported.
	Protocol int
	Unseen   bool
}

// A ClusterChange says what a change of a Cluster means.
type ClusterChange struct {
	// Targeting reports that Bundles may have to be planned again. Was and Is
	// are the cluster before and after; Was is nil for a new one.
	Targeting bool
	Was, Is   *Candidate
	// Life reports that the agent was silent and reports again, or reports for
	// the first time; Away then, for how long it was silent, 0 for the first time.
	Life bool
	Away time.Duration
}

// SetCluster stores a Cluster and what its managedFields say of its agent.
func (t clusterTable) SetCluster(c *fleet.Cluster) (Changes, ClusterChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	key := kube.KeyOf(c)
	row := t.clusters[key]
	if t.departed.known[c.UID] {
		return changed, ClusterChange{}
	}
	if row != nil && row.obj.UID == c.UID && !newer(c.ResourceVersion, row.obj.ResourceVersion) {
		if c.ResourceVersion == row.obj.ResourceVersion {
			row.obj = c // the cache's, which is kept anyway
		}
		return changed, ClusterChange{}
	}
	change := ClusterChange{}
	if row == nil {
		row = &clusterRow{}
		t.clusters[key] = row
		t.expectNamespace(key)
		t.addMember(key)
		for placement := range t.onCluster[key] {
			if placement.want != nil {
				row.counts.add(placement.view.State, 1)
			}
		}
	} else {
		change.Was = row.candidate()
	}
	fresh := row.obj == nil
	row.obj = c
	row.other = registration.OtherManager(c, registration.Mark{ID: t.ownID})
	change.Life, change.Away = t.setHeartbeat(row, fresh, &changed)
	t.placeCluster(row)
	change.Is = row.candidate()
	change.Targeting = change.Was == nil || !sameCandidate(change.Was, change.Is)
	if change.Was != change.Is {
		t.moves++
	}
	changed.add(Subject{KindCluster, key}, row.counts.final())
	if change.Targeting || change.Life {
		t.touchGroups(key.Namespace, &changed)
	}
	return changed, change
}

// placeCluster computes the place of a cluster after a change: its namespace, its
// groups and labels.
func (cr *core) placeCluster(row *clusterRow) {
	c := row.obj
	var namespace string
	namespace, row.noPlace = registration.PlaceOf(c, cr.spaceOwners)
	var groups target.Groups
	if w := cr.groups[c.Namespace]; w != nil {
		groups = w.compiled
	}
	p := deployment.NewPlace(c, groups, namespace)
	cr.setWindows(p, row.heartbeat.Protocol)
	if row.place == nil || !p.Same(row.place) {
		row.place = p
	}
}

// policy returns the check-in policy of the agent.
func (row *clusterRow) policy() heartbeat.CheckInPolicy {
	return heartbeat.PolicyOf(row.obj, row.heartbeat.Protocol)
}

// candidate returns the cluster as a Candidate; the same pointer as before if nothing
// has changed.
func (row *clusterRow) candidate() *Candidate {
	c := Candidate{Key: kube.KeyOf(row.obj), Place: row.place, NoPlace: row.noPlace, Other: row.other,
		Offline: row.life == summary.Offline, Silent: row.pendingAck.silent, Deleting: withdrawal.IsDeleting(row.obj),
		Protocol: row.heartbeat.Protocol, Unseen: row.life == summary.NeverSeen, Emptied: withdrawal.IsEmptied(row.obj)}
	if row.shown == nil || *row.shown != c {
		row.shown = &c
	}
	return row.shown
}

func sameCandidate(a, b *Candidate) bool {
	return a.Place == b.Place && a.NoPlace == b.NoPlace && a.Other == b.Other && a.Deleting == b.Deleting && a.Emptied == b.Emptied &&
		a.Protocol == b.Protocol && a.Unseen == b.Unseen
}

// RemoveCluster removes a Cluster that is gone.
func (t clusterTable) RemoveCluster(key kube.Key) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	if row := t.clusters[key]; row != nil {
		t.departed.add(row.obj.UID)
		delete(t.clusters, key)
		delete(t.expected, naming.ClusterNamespace(key.Namespace, key.Name))
		t.removeMember(key)
	}
	t.touchGroups(key.Namespace, &changed)
	return changed
}

// Candidates returns the clusters of a namespace, sorted by name.
func (t clusterTable) Candidates(namespace string) []*Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*Candidate, 0, len(t.members[namespace]))
	for _, key := range t.members[namespace] {
		out = append(out, t.clusters[key].candidate())
	}
	return out
}

// addMember inserts a cluster into the sorted list of its namespace.
func (cr *core) addMember(key kube.Key) {
	list := cr.members[key.Namespace]
	i, _ := slices.BinarySearchFunc(list, key, CompareKeys)
	cr.members[key.Namespace] = slices.Insert(list, i, key)
	cr.moves++
}

// removeMember removes a cluster from the list of its namespace.
func (cr *core) removeMember(key kube.Key) {
	list := cr.members[key.Namespace]
	i, _ := slices.BinarySearchFunc(list, key, CompareKeys)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(cr.members, key.Namespace)
	} else {
		cr.members[key.Namespace] = list
	}
	cr.moves++
}

// Moves returns a number that changes with the inputs that the decisions about all
// Bundles share: clusters that are created, deleted or changed, and calls of BumpMoves.
func (t clusterTable) Moves() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moves
}

// Cluster returns a Cluster.
func (t clusterTable) Cluster(key kube.Key) (*fleet.Cluster, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.clusters[key]; row != nil {
		return row.obj, true
	}
	return nil, false
}

// Agent describes the agent of a cluster.
type Agent struct {
	Life     summary.AgentLiveness
	Protocol int       // 0: of rancher/fleet, or never seen
	Alive    time.Time // when the agent was last known to run, by the manager's clock
	Deleting bool      // its Cluster is being deleted without a hold
}

// AgentOf returns what is known of the agent of a cluster; false if the Cluster does
// not exist.
func (t clusterTable) AgentOf(key kube.Key) (Agent, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil {
		return Agent{}, false
	}
	return Agent{Life: row.life, Protocol: row.heartbeat.Protocol, Alive: row.lastAlive,
		Deleting: withdrawal.IsDeleting(row.obj)}, true
}

// ClusterFacts returns a Cluster and the input of the summary part of its status. It
// returns false until every Bundle was planned once.
func (t clusterTable) ClusterFacts(key kube.Key) (*fleet.Cluster, summary.ClusterView, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if !t.settled || row == nil {
		return nil, summary.ClusterView{}, false
	}
	v := summary.ClusterView{Deployments: t.deploymentViews(key), Life: row.life}
	v.Scheduled = row.place.Windows != ""
	v.Active = v.Scheduled && row.place.Closed == ""
	if v.Life == summary.Offline {
		v.Absent = row.policy().Absent(t.checkin)
	}
	for c := range t.onCluster[key] {
		if c.bd != nil && c.want == nil && !withdrawal.IsDeleting(row.obj) {
			v.Withdrawing++
		}
	}
	return row.obj, v, true
}

// deploymentViews returns the views of all desired deployments of a cluster.
func (cr *core) deploymentViews(key kube.Key) []*summary.Deployment {
	var out []*summary.Deployment
	for c := range cr.onCluster[key] {
		if c.want != nil {
			view := c.view
			out = append(out, &view)
		}
	}
	slices.SortFunc(out, func(a, b *summary.Deployment) int {
		return CompareKeys(kube.Key{Name: a.Bundle}, kube.Key{Name: b.Bundle})
	})
	return out
}

// SetGroup stores a ClusterGroup. It returns the clusters that have joined or left the
// group.
func (t clusterTable) SetGroup(g *fleet.ClusterGroup) (Changes, []ClusterChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.departed.known[g.UID] {
		return Changes{}, nil
	}
	w := t.groups[g.Namespace]
	if w == nil {
		w = &workspace{groups: map[string]*fleet.ClusterGroup{}}
		t.groups[g.Namespace] = w
	}
	old := w.groups[g.Name]
	if old != nil && old.UID == g.UID && !newer(g.ResourceVersion, old.ResourceVersion) {
		return Changes{}, nil
	}
	w.groups[g.Name] = g
	if old != nil && maps.Equal(old.Labels, g.Labels) && equality.Semantic.DeepEqual(old.Spec, g.Spec) {
		var changed Changes
		changed.add(Subject{KindGroup, kube.KeyOf(g)}, false)
		return changed, nil
	}
	return t.setGroups(g.Namespace, kube.KeyOf(g))
}

// RemoveGroup removes a ClusterGroup that is gone.
func (t clusterTable) RemoveGroup(key kube.Key) (Changes, []ClusterChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.groups[key.Namespace]; w != nil {
		if g := w.groups[key.Name]; g != nil {
			t.departed.add(g.UID)
		}
		delete(w.groups, key.Name)
		if len(w.groups) == 0 {
			delete(t.groups, key.Namespace)
		}
	}
	return t.setGroups(key.Namespace, key)
}

// setGroups computes the groups of all clusters of a namespace again after a change of
// one group.
func (t clusterTable) setGroups(namespace string, group kube.Key) (Changes, []ClusterChange) {
	var changed Changes
	var changes []ClusterChange
	w := t.groups[namespace]
	if w != nil {
		w.compiled, _ = target.CompileGroups(slices.Collect(maps.Values(w.groups)))
		if w.groups[group.Name] != nil {
			changed.add(Subject{KindGroup, group}, false)
		}
	}
	for _, key := range t.members[namespace] {
		changes = t.replaceCluster(t.clusters[key], changes)
	}
	return changed, changes
}

// replaceCluster computes the place of a cluster, and appends a change if it differs.
func (cr *core) replaceCluster(row *clusterRow, changes []ClusterChange) []ClusterChange {
	was := row.candidate()
	cr.placeCluster(row)
	is := row.candidate()
	if sameCandidate(was, is) {
		return changes
	}
	cr.moves++
	return append(changes, ClusterChange{Targeting: true, Was: was, Is: is})
}

// touchGroups marks the groups of a namespace as changed. It marks them as not final:
// only their counters would show that.
func (cr *core) touchGroups(namespace string, changed *Changes) {
	if w := cr.groups[namespace]; w != nil {
		for name := range w.groups {
			changed.add(Subject{KindGroup, kube.Key{Namespace: namespace, Name: name}}, false)
		}
	}
}

// GroupFacts returns a ClusterGroup and its members. It returns false until every
// Bundle was planned once.
func (t clusterTable) GroupFacts(key kube.Key) (*fleet.ClusterGroup, []summary.Member, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.groups[key.Namespace]
	if !t.settled || w == nil || w.groups[key.Name] == nil {
		return nil, nil, false
	}
	var members []summary.Member
	for _, k := range t.members[key.Namespace] {
		row := t.clusters[k]
		if !inGroup(row.place.Groups, key.Name) {
			continue
		}
		m := summary.Member{Name: k.Name, Offline: row.life != summary.Online}
		views := t.deploymentViews(k)
		if row.sum == nil {
			s := summary.Count(summary.ByBundle, views)
			row.sum = &s
		}
		m.Summary = *row.sum
		for _, d := range views {
			summary.AddCounts(&m.Counts, d.Counts)
		}
		members = append(members, m)
	}
	return w.groups[key.Name], members, true
}

func inGroup(groups []target.Group, name string) bool {
	return slices.ContainsFunc(groups, func(g target.Group) bool { return g.Name == name })
}

// BundlesOn returns the Bundles that have, or should have, a deployment on a cluster,
// sorted.
func (t clusterTable) BundlesOn(cluster kube.Key) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []kube.Key
	for c := range t.onCluster[cluster] {
		out = append(out, c.bundle)
	}
	slices.SortFunc(out, CompareKeys)
	return out
}
