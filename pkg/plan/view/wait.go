package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// A Goal is what a user waits for: that everything of a GitRepo, of a HelmOp, of a Bundle or
// on a Cluster is Ready.
type Goal struct {
	Kind string // GitRepo, HelmOp, Bundle or Cluster
	Key  Key
	// Commit, in full or its first digits, has to be read first, and only the
	// bundles that it changed count. Empty: what is written now, all of it.
	Commit string
	// All waits for Offline clusters too.
	All bool
	// KeepWaiting does not end when something cannot become Ready without a
	// change.
	KeepWaiting bool
}

// A Verdict is the state of a Goal at one moment.
type Verdict struct {
	// End is Waiting until the wait is over.
	End Progress
	// Seen reports whether the commit was read and the bundles are those that this
	// reading left, and Commit is that commit, or the newest that was read.
	Seen   bool
	Commit string
	// Unproven reports that the repository's manager does not say which bundles a reading
	// left. Then only a Fleet that is Ordered can show whether it was Seen.
	Unproven bool
	// Bundles is how many bundles there are; Changed are the names of those
	// that are waited for, and Removed of those that the commit removed.
	Bundles int
	Changed []string
	Removed []string
	Pairs   []Pair // by bundle, then cluster
	// Removals are the bundles that are being removed, by name.
	Removals []Removal
	// Held are the bundles whose removal waits to be approved.
	Held []Key
	// Faults are texts about what cannot pass without a change and belongs to
	// no pair.
	Faults []string
	// Faulty is the bundle that the first of Faults is about; empty where it is about
	// something else.
	Faulty string
	// Waits are texts about what is waited for and belongs to no pair.
	Waits []string
	// Trouble says why the repository cannot be read at present; it may pass by
	// itself.
	Trouble string
	// Check suggests what to check if the repository has not seen the commit.
	Check string
	// Warnings are the repository's messages about the files of the commit that was
	// Seen, and those of its bundles about their clusters.
	Warnings string
}

// Evaluate returns the state of a goal. It depends on nothing but f and the goal.
func Evaluate(goal Goal, f Fleet) Verdict {
	j := newEvaluator(goal, f)
	switch goal.Kind {
	case "GitRepo":
		j.evaluateRepository()
	case "HelmOp":
		j.evaluateHelmOp()
	case "Bundle":
		j.bundleAlone()
	case "Cluster":
		j.clusterAlone()
	}
	slices.SortFunc(j.verdict.Pairs, func(a, b Pair) int {
		return cmp.Or(compareKeys(a.Bundle, b.Bundle), compareKeys(a.Cluster, b.Cluster))
	})
	slices.Sort(j.verdict.Changed)
	j.verdict.End = j.result()
	if j.verdict.End == Waiting && j.verdict.Trouble == "" {
		if j.verdict.Trouble = j.unmanaged(f); j.verdict.Trouble != "" {
			j.verdict.Check = "" // no manager reads the commit, wherever it is
		}
	}
	return j.verdict
}

// stopped says of the default manager that it does not run.
const stopped = "the manager does not run"

// Stopped reports whether the wait goes on because the default manager does not run.
func (v Verdict) Stopped() bool { return v.End == Waiting && v.Trouble == stopped }

// unmanaged says that the manager of what is waited for does not run; it is empty where it
// does, or that is not known.
func (e *evaluator) unmanaged(f Fleet) string {
	var o metav1.Object
	if repo := e.repos[e.goal.Key]; e.goal.Kind == "GitRepo" && repo != nil {
		o = repo
	} else if op := e.helmOps[e.goal.Key]; e.goal.Kind == "HelmOp" && op != nil {
		o = op
	} else if b := e.bundles[e.goal.Key]; e.goal.Kind == "Bundle" && b != nil {
		o = b
	} else {
		return ""
	}
	m := f.Shards[ShardOf(o)]
	switch text := m.Unmanaged(); {
	case text != "":
		return text + " (" + m.ShardHint() + ")"
	case m.IsGone():
		return stopped
	}
	return ""
}

type evaluator struct {
	goal           Goal
	verdict        Verdict
	repos          map[Key]*fleet.GitRepo
	helmOps        map[Key]*fleet.HelmOp
	bundles        map[Key]*fleet.Bundle
	clusters       map[Key]*fleet.Cluster
	deployments    map[Key][]*fleet.BundleDeployment // by bundle; those that stay
	leaving        map[Key][]*fleet.BundleDeployment // by bundle; those that are withdrawn
	ordered        bool
	clusterOffline bool // the cluster that is waited for is Offline
}

func newEvaluator(goal Goal, f Fleet) *evaluator {
	j := &evaluator{
		goal: goal, repos: byKey(f.Repositories), helmOps: byKey(f.HelmOps), bundles: byKey(f.Bundles), clusters: byKey(f.Clusters),
		deployments: map[Key][]*fleet.BundleDeployment{}, leaving: map[Key][]*fleet.BundleDeployment{}, ordered: f.Ordered,
	}
	for _, bd := range f.Deployments {
		of := j.deployments
		if IsLeaving(bd) {
			of = j.leaving
		}
		of[BundleOf(bd)] = append(of[BundleOf(bd)], bd)
	}
	return j
}

func byKey[T interface {
	GetNamespace() string
	GetName() string
}](list []T) map[Key]T {
	out := make(map[Key]T, len(list))
	for _, o := range list {
		out[Key{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return out
}

func (e *evaluator) addFault(format string, args ...any) {
	e.verdict.Faults = append(e.verdict.Faults, fmt.Sprintf(format, args...))
}

// faulty adds what a Bundle says that cannot pass without a change.
func (e *evaluator) faulty(b *fleet.Bundle, message string) {
	if len(e.verdict.Faults) == 0 {
		e.verdict.Faulty = b.Name
	}
	e.addFault("bundle %s: %s", b.Name, message)
}

func (e *evaluator) addWait(format string, args ...any) {
	e.verdict.Waits = append(e.verdict.Waits, fmt.Sprintf(format, args...))
}

// result returns the result of pairs, faults and waits.
func (e *evaluator) result() Progress {
	n := map[Progress]int{}
	for _, p := range e.verdict.Pairs {
		n[p.Progress]++
	}
	for _, r := range e.verdict.Removals {
		n[r.Progress]++
	}
	switch failed := n[Failed]+len(e.verdict.Faults) > 0; {
	case failed && !e.goal.KeepWaiting:
		return Failed
	case failed, n[Waiting] > 0, len(e.verdict.Waits) > 0, e.verdict.Trouble != "", !e.verdict.Seen:
		return Waiting
	case n[Deferred] > 0, e.clusterOffline:
		return Deferred
	}
	return Reached
}

// bundleAlone judges one Bundle.
func (e *evaluator) bundleAlone() {
	b := e.bundles[e.goal.Key]
	if b == nil {
		e.addFault("bundle %s is gone", e.goal.Key.Name)
		return
	}
	e.verdict.Bundles, e.verdict.Seen, e.verdict.Commit = 1, true, b.Labels[fleet.LabelCommit]
	repo := e.repos[repoOf(b)]
	if e.goal.Commit != "" {
		e.verdict.Seen = false
		if repo != nil {
			e.checkRead(repo, e.bundlesOf(keyOf(repo)))
		} else if e.verdict.Seen = e.isChangedByGoal(b); !e.verdict.Seen {
			e.addWait("bundle %s is at %s", b.Name, ShortCommit(e.verdict.Commit))
		}
		if !e.verdict.Seen || !e.isChangedByGoal(b) {
			return
		}
	}
	if c := HeldDeletion(b); c != nil {
		e.addFault("bundle %s: %s", b.Name, c.Message)
		return
	}
	if reading.IsLeaving(repo, b) {
		e.addFault("bundle %s is being removed", b.Name)
		return
	}
	e.verdict.Warnings = BundleWarnings(b)
	e.evaluateBundle(b, false)
}

// clusterAlone judges everything on one cluster.
func (e *evaluator) clusterAlone() {
	c := e.clusters[e.goal.Key]
	if c == nil {
		e.addFault("cluster %s is gone", e.goal.Key.Name)
		return
	}
	e.verdict.Seen = true
	switch state := ClusterState(c); {
	case state == fleet.WaitCheckIn:
		e.addWait("the agent of cluster %s has not checked in yet", c.Name)
	case state == fleet.Offline && e.goal.All:
		e.addWait("cluster %s is Offline", c.Name)
	case state == fleet.Offline:
		e.clusterOffline = true
	}
	for _, list := range e.deployments {
		for _, bd := range list {
			if ClusterOf(bd) != e.goal.Key {
				continue
			}
			b := e.bundles[BundleOf(bd)]
			if b == nil || b.DeletionTimestamp != nil {
				continue
			}
			e.verdict.Bundles++
			e.verdict.Changed = append(e.verdict.Changed, b.Name)
			e.evaluateDeployment(b, bd)
		}
	}
}

func (e *evaluator) isChangedByGoal(b *fleet.Bundle) bool {
	return e.goal.Commit == "" || hasPrefix(b.Labels[fleet.LabelCommit], e.goal.Commit)
}

// evaluateBundle judges one Bundle on all its clusters. That it matches no cluster
// does not matter if others are waited for, of which some do.
func (e *evaluator) evaluateBundle(b *fleet.Bundle, others bool) {
	e.verdict.Changed = append(e.verdict.Changed, b.Name)
	held := e.checkRemovals(b)
	if c := Awaited(b); c != nil {
		e.addWait("bundle %s: %s", b.Name, c.Message)
	} else if isBehindSpec(b) || len(b.Status.Conditions) == 0 {
		e.addWait("bundle %s was not worked on yet", b.Name)
	} else if c := readyProblem(b.Status.Conditions); c != nil {
		if c.Reason != fleet.ReasonNoTargets || !others && !held {
			e.faulty(b, c.Message)
		}
	}
	list := e.deployments[keyOf(b)]
	known := map[Key]bool{}
	for _, bd := range list {
		known[ClusterOf(bd)] = true
		e.evaluateDeployment(b, bd)
	}
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if key := parseKey(r.Name); !known[key] {
			known[key] = true
			e.evaluateAbsent(b, key, r)
		}
	}
	if missing := b.Status.Summary.DesiredReady - len(known); missing > 0 {
		e.addWait("bundle %s is not written to %d of %d clusters yet", b.Name, missing, b.Status.Summary.DesiredReady)
	}
	if held := b.Status.Summary.OutOfSync - e.open(b); held > 0 && len(known) > 0 {
		e.addWait("bundle %s is held back on %d of %d clusters", b.Name, held, b.Status.Summary.DesiredReady)
	}
}

// open counts the deployments of a Bundle that are known not to be Ready: by what they say
// themselves, or by name in the summary of the Bundle. One that is held back is unchanged
// and does not have the new version; the summary counts all of these and names ten.
func (e *evaluator) open(b *fleet.Bundle) int {
	n := 0
	for _, p := range e.verdict.Pairs {
		if p.Bundle == keyOf(b) && p.Progress != Reached {
			n++
		}
	}
	return n
}

// hasPrefix reports whether a commit is meant by its first digits.
func hasPrefix(commit, prefix string) bool {
	return prefix != "" && strings.HasPrefix(commit, strings.ToLower(prefix))
}

// ShortCommit returns the first seven digits of a commit, as people write commits.
func ShortCommit(commit string) string { return commit[:min(len(commit), 7)] }

// Combine returns the result of several verdicts: one failure fails all at once, and
// nothing is reached before all are.
func Combine(list []Verdict) Progress {
	n := map[Progress]int{}
	for _, v := range list {
		n[v.End]++
	}
	for _, p := range []Progress{Failed, Waiting, Deferred} {
		if n[p] > 0 {
			return p
		}
	}
	return Reached
}
