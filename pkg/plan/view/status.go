package view

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// A Status is a fleet on one screen: sums, then only what needs a person, then
// what moves. Field names are part of the command line's contract.
type Status struct {
	// Manager is who rolls out.
	Manager Manager `json:"manager"`
	// Clusters and Bundles are counted by state.
	Clusters Count `json:"clusters"`
	Bundles  Count `json:"bundles"`
	// Repositories are counted by whether they could be read.
	Repositories Repositories `json:"repositories"`
	// HelmOps are counted by state. There are none for a user who may not list them.
	HelmOps Count `json:"helmOps"`
	// Attention is what needs a person, worst first.
	Attention []Attention `json:"attention"`
	// Moving is what changes by itself.
	Moving []Moving `json:"moving"`
	// Paused is what users hold back.
	Paused []PausedObject `json:"paused"`
	// Offline is which clusters are away.
	Offline Offline `json:"offline"`

	// Holds reports that something that is paused is not at its newest version.
	Holds bool `json:"-"`
}

// A Count counts objects by state.
type Count struct {
	// Total is the number of all of them.
	Total int `json:"total"`
	// States has the number for each state that occurs.
	States map[fleet.BundleState]int `json:"states"`
}

// Repositories counts repositories. One that was not read yet is in none of
// the parts.
type Repositories struct {
	// Total is the number of all of them.
	Total int `json:"total"`
	// Current is how many are deployed at the newest commit that they have.
	Current int `json:"current"`
	// Held is how many were read, and may not become a change.
	Held int `json:"held"`
	// Unreadable is how many cannot be read, in whole or in part.
	Unreadable int `json:"unreadable"`
	// Warnings is how many have warnings, in whatever part they are.
	Warnings int `json:"warnings"`
}

// Attention is one thing that needs a person.
type Attention struct {
	// State is a state of Fleet, or Unreadable, Held or Orphaned.
	State fleet.BundleState `json:"state"`
	// Kind is Bundle, GitRepo, HelmOp, Cluster, Workspace or Manager.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Reason is one CamelCase word that programs may compare.
	Reason string `json:"reason,omitempty"`
	// Since is when it began, if that is known.
	Since *time.Time `json:"since,omitempty"`
	// Message explains it to a person, in one line.
	Message string `json:"message,omitempty"`
	// Clusters are those concerned.
	Clusters Sample `json:"clusters"`
}

// A Sample is a number of clusters and the names of some.
type Sample struct {
	// Count of all of them.
	Count int `json:"count"`
	// Sample holds "<workspace>/<name>" of at most 10.
	Sample []string `json:"sample,omitempty"`
}

// Moving is one thing that changes by itself.
type Moving struct {
	// Kind is Bundle, GitRepo, HelmOp or Cluster.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Commit is where it goes.
	Commit string `json:"commit,omitempty"`
	// Reason says what it waits for, where that is known.
	Reason string `json:"reason,omitempty"`
	// Ready and Desired are numbers of clusters.
	Ready   int `json:"ready"`
	Desired int `json:"desired"`
	// Partitions are the parts of a rollout, in order; empty where there is
	// only one.
	Partitions []Partition `json:"partitions,omitempty"`
}

// A Partition is one part of a rollout.
type Partition struct {
	// Name of the partition.
	Name string `json:"name"`
	// Ready and Count are numbers of clusters.
	Ready int `json:"ready"`
	Count int `json:"count"`
}

// Offline is which clusters are away.
type Offline struct {
	// Count of all of them.
	Count int `json:"count"`
	// Longest are those that are away longest, at most 3.
	Longest []Away `json:"longest"`
}

// Away is one cluster that does not check in.
type Away struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// LastSeen is when it last checked in.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
}

// longestAway is how many clusters that are away are named.
const longestAway = 3

// Summarize puts a fleet and its manager on one screen.
func Summarize(f Fleet, m Manager, now time.Time) Status {
	s := Status{
		Manager:  m,
		Clusters: countStates(f.Clusters, ClusterState), Bundles: countStates(f.Bundles, BundleState),
		HelmOps:   countStates(f.HelmOps, HelmOpState),
		Attention: []Attention{}, Moving: []Moving{}, Paused: PausedObjects(f),
		Offline: offline(f.Clusters),
	}
	seen := newAttentionCollector(f, now)
	for _, r := range sortedBy(f.Repositories) {
		s.Repositories.addRepository(r)
		seen.repository(r)
	}
	for _, op := range sortedBy(f.HelmOps) {
		seen.helmOp(op)
	}
	for _, b := range sortedBy(f.Bundles) {
		seen.bundle(b)
	}
	seen.repositoriesLeft()
	seen.helmOpsLeft()
	for _, c := range sortedBy(f.Clusters) {
		seen.cluster(c)
	}
	s.Attention = append(s.Attention, m.attention()...)
	s.Attention = append(s.Attention, f.shardAttention()...)
	s.Attention = append(s.Attention, seen.rows()...)
	s.Moving, s.Holds = append(s.Moving, seen.moving...), seen.holding
	return s
}

// Quiet reports whether there is nothing to say beyond the sums.
func (s Status) Quiet() bool {
	return len(s.Attention) == 0 && len(s.Moving) == 0 && len(s.Paused) == 0 && s.Offline.Count == 0
}

// Settled reports whether all is Ready but for clusters that are away. What is paused and not at
// its newest version is not.
func (s Status) Settled() bool { return len(s.Attention) == 0 && len(s.Moving) == 0 && !s.Holds }

func countStates[T any](list []T, state func(T) fleet.BundleState) Count {
	c := Count{Total: len(list), States: map[fleet.BundleState]int{}}
	for _, o := range list {
		c.States[state(o)]++
	}
	return c
}

// Sorted returns the states that occur, best first.
func (c Count) Sorted() []fleet.BundleState {
	var states []fleet.BundleState
	for s := range c.States {
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b fleet.BundleState) int { return StateRank(a) - StateRank(b) })
	return states
}

// AllReady reports whether all that were counted are Ready.
func (c Count) AllReady() bool { return c.States[fleet.Ready] == c.Total }

func (r *Repositories) addRepository(repo *fleet.GitRepo) {
	r.Total++
	if RepoWarnings(repo) != "" {
		r.Warnings++
	}
	trouble, c := RepoTrouble(repo)
	st := repo.Status
	switch {
	case c != nil && approved(repo.Annotations, c):
	case trouble == Held:
		r.Held++
	case trouble == Unreadable:
		r.Unreadable++
	case st.Commit != "" && (st.PollingCommit == "" || st.PollingCommit == st.Commit):
		r.Current++
	}
}

func offline(clusters []*fleet.Cluster) Offline {
	var away []*fleet.Cluster
	for _, c := range sortedBy(clusters) {
		if ClusterState(c) == fleet.Offline {
			away = append(away, c)
		}
	}
	slices.SortStableFunc(away, func(a, b *fleet.Cluster) int {
		return a.Status.Agent.LastSeen.Compare(b.Status.Agent.LastSeen.Time)
	})
	out := Offline{Count: len(away), Longest: []Away{}}
	for _, c := range away[:min(longestAway, len(away))] {
		out.Longest = append(out.Longest, Away{Name: keyOf(c).String(), LastSeen: utcPointer(c.Status.Agent.LastSeen.Time)})
	}
	return out
}

// utcPointer is a pointer to a time that is known, in UTC.
func utcPointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// updating reports whether a repository is being read at present.
func updating(r *fleet.GitRepo) bool {
	return condition.IsTrue(r.Status.Conditions, fleet.ConditionReconciling) || RepoState(r) == fleet.GitUpdating
}
