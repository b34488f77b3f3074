package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// How long something may take before it needs a person.
const (
	// unreadyGrace is for objects that are not ready and do not say that they
	// never will be.
	unreadyGrace = 2 * time.Minute
	// checkInGrace is for a new cluster whose agent has not checked in.
	checkInGrace = 5 * time.Minute
)

// A attentionCollector collects what needs attention and what moves.
type attentionCollector struct {
	now             time.Time
	fleet           Fleet
	offlineClusters map[Key]bool              // clusters that are Offline
	aways           map[string]int            // their number, by workspace
	paused          map[Key]bool              // clusters that are paused
	heldOwners      map[owner]bool            // those that are Held
	leaving         map[string]int            // rows of workspaces whose deleted Bundles are Held, by name
	reported        map[owner]bool            // those with a row of their own or of a bundle
	bundles         map[owner][]*fleet.Bundle // by what they were made from
	unchangedRepos  []*fleet.GitRepo
	unchangedOps    []*fleet.HelmOp
	list            []Attention
	moving          []Moving
	holding         bool // something that is paused is not at its newest version
}

func newAttentionCollector(f Fleet, now time.Time) *attentionCollector {
	s := &attentionCollector{
		now: now, fleet: f, offlineClusters: map[Key]bool{}, aways: map[string]int{}, paused: map[Key]bool{},
		heldOwners: map[owner]bool{}, reported: map[owner]bool{}, leaving: map[string]int{},
		bundles: map[owner][]*fleet.Bundle{},
	}
	for _, b := range f.Bundles {
		s.bundles[ownerOf(b)] = append(s.bundles[ownerOf(b)], b)
	}
	for _, c := range f.Clusters {
		s.paused[keyOf(c)] = c.Spec.Paused
		if ClusterState(c) == fleet.Offline {
			s.offlineClusters[keyOf(c)] = true
			s.aways[c.Namespace]++
		}
	}
	return s
}

// repository looks at what keeps a GitRepo from being read.
func (ac *attentionCollector) repository(r *fleet.GitRepo) {
	self := owner{"GitRepo", keyOf(r)}
	state, c := RepoTrouble(r)
	switch {
	case c != nil && c.Type == fleet.ConditionDeletionHeld && ac.removal("GitRepo", r, r.Status.Conditions, r.Status.ReadyClusters, r.Status.DesiredReadyClusters):
		ac.reported[self] = true
	case c != nil:
		ac.heldOwners[self], ac.reported[self] = state == Held, true
		ac.list = append(ac.list, Attention{
			State: state, Kind: "GitRepo", Name: self.key.String(),
			Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
		})
	case updating(r) || ac.lacksBundles(r) || reasonOf(readyProblem(r.Status.Conditions)) == summary.ReasonNotRead:
		ac.reported[self] = true
		ac.moving = append(ac.moving, Moving{
			Kind: "GitRepo", Name: self.key.String(), Commit: r.Status.PollingCommit, Reason: cmp.Or(ac.fleet.Unmanaged(r), readProgress(r)),
			Ready: r.Status.ReadyClusters, Desired: r.Status.DesiredReadyClusters,
		})
	default:
		ac.unchangedRepos = append(ac.unchangedRepos, r)
	}
}

// removal adds the row of a removal that a person has approved and the manager has not
// begun, and reports whether there is one.
func (ac *attentionCollector) removal(kind string, o metav1.Object, list []fleet.Condition, ready, desired int) bool {
	text := Approval(o, list)
	if text != "" {
		ac.moving = append(ac.moving, Moving{Kind: kind, Name: keyOf(o).String(), Ready: ready, Desired: desired, Reason: text})
	}
	return text != ""
}

// lacksBundles reports whether the bundles that are seen of a GitRepo are known not to be
// those that its last reading left: another reading is writing them.
func (ac *attentionCollector) lacksBundles(r *fleet.GitRepo) bool {
	shows, known := reading.Shows(r, ac.bundles[owner{"GitRepo", keyOf(r)}])
	return known && !shows
}

// readProgress says how far a GitRepo is that is being read, with the failure that is
// tried again.
func readProgress(r *fleet.GitRepo) string {
	c := condition.Find(r.Status.Conditions, fleet.ConditionReconciling)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == fleet.ReasonProgressing || c.Message == "" {
		return "being read"
	}
	return c.Message
}

// repositoriesLeft looks at GitRepos that were read and are not Ready for a reason that
// none of their Bundles has reported. After a reading the manager needs a moment to write
// the state of the Bundles.
func (ac *attentionCollector) repositoriesLeft() {
	for _, r := range ac.unchangedRepos {
		c := readyProblem(r.Status.Conditions)
		if c == nil || ac.reported[owner{"GitRepo", keyOf(r)}] {
			continue
		}
		if c.Reason == fleet.ReasonProgressing && ac.now.Sub(changedAt(c)) < unreadyGrace {
			ac.moving = append(ac.moving, Moving{
				Kind: "GitRepo", Name: keyOf(r).String(), Commit: r.Status.Commit, Reason: c.Message,
				Ready: r.Status.ReadyClusters, Desired: r.Status.DesiredReadyClusters,
			})
			continue
		}
		ac.list = append(ac.list, Attention{
			State: fleet.NotReady, Kind: "GitRepo", Name: keyOf(r).String(),
			Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
		})
	}
}

// bundle looks at a Bundle: one row for each state that needs a person, and
// one for all that is on its way.
func (ac *attentionCollector) bundle(b *fleet.Bundle) {
	before := len(ac.list) + len(ac.moving)
	if c := HeldDeletion(b); c != nil && c.Reason != fleet.ReasonProtected {
		ac.workspaceHeld(b, c)
		return
	}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld); c != nil && c.Status == corev1.ConditionTrue {
		if !ac.removal("Bundle", b, b.Status.Conditions, b.Status.Summary.Ready, b.Status.Summary.DesiredReady) {
			ac.list = append(ac.list, Attention{
				State: Held, Kind: "Bundle", Name: keyOf(b).String(),
				Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
			})
		}
		before++ // it says nothing about what is deployed
		if b.DeletionTimestamp != nil {
			return // that is why it is not Ready
		}
	}
	if b.DeletionTimestamp != nil {
		ac.addLeavingBundle(b)
	} else if c := readyProblem(b.Status.Conditions); c != nil {
		ac.bundleProblem(b, c)
	} else {
		for _, state := range []fleet.BundleState{fleet.ErrApplied, fleet.Modified, fleet.NotReady} {
			ac.bundleState(b, state)
		}
		ac.addBundleWaits(b)
	}
	if len(ac.list)+len(ac.moving) > before {
		ac.reported[ownerOf(b)] = true
	}
}

// addLeavingBundle is a Bundle that is being removed. What was not Ready before is no trouble
// of the removal. One that is left on clusters that are away does not move.
func (ac *attentionCollector) addLeavingBundle(b *fleet.Bundle) {
	ac.bundleState(b, fleet.ErrApplied)
	all := &b.Status.Summary
	here := all.Ready
	for _, state := range []fleet.BundleState{fleet.ErrApplied, fleet.WaitApplied, fleet.Modified, fleet.OutOfSync, fleet.Pending, fleet.NotReady} {
		n, _ := ac.countPresent(b, state)
		here += n
	}
	if here > 0 || all.DesiredReady == 0 {
		ac.addMoving(b, "being removed")
	}
}

// workspaceHeld is a Bundle that was deleted with its namespace or its kind: a person
// decides about all of a workspace at once, so they have one row.
func (ac *attentionCollector) workspaceHeld(b *fleet.Bundle, c *fleet.Condition) {
	ac.reported[ownerOf(b)] = true
	row := Attention{
		State: Held, Kind: "Workspace", Name: b.Namespace + "/" + b.Namespace,
		Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
	}
	i, known := ac.leaving[b.Namespace]
	if !known {
		ac.leaving[b.Namespace] = len(ac.list)
		ac.list = append(ac.list, row)
		return
	}
	if have := ac.list[i].Since; have == nil || row.Since != nil && row.Since.Before(*have) {
		ac.list[i].Since = row.Since
	}
}

// untargeted reports whether a GitRepo says of all its Bundles that they match no
// cluster: then it has the row.
func (ac *attentionCollector) untargeted(repo Key) bool {
	return slices.ContainsFunc(ac.unchangedRepos, func(r *fleet.GitRepo) bool {
		return keyOf(r) == repo && reasonOf(readyProblem(r.Status.Conditions)) == fleet.ReasonNoTargets
	})
}

// bundleProblem is a Bundle that is kept from being deployed at all.
func (ac *attentionCollector) bundleProblem(b *fleet.Bundle, c *fleet.Condition) {
	state := BundleState(b)
	switch c.Reason {
	case fleet.ReasonNoTargets:
		if ac.untargeted(repoOf(b)) {
			return
		}
	case fleet.ReasonNotImplemented, fleet.EventPolicyViolation, fleet.ReasonSuspended:
		if ac.heldOwners[ownerOf(b)] {
			return
		}
		state = Held
	}
	ac.list = append(ac.list, Attention{
		State: state, Kind: "Bundle", Name: keyOf(b).String(),
		Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
		Clusters: Sample{Count: b.Status.Summary.DesiredReady},
	})
}

// bundleState adds a row for the deployments of a Bundle in one state that does not end by
// itself. Objects that are not ready yet, and dependencies that are not there yet, get some
// time; what is not ready for another reason does not.
func (ac *attentionCollector) bundleState(b *fleet.Bundle, state fleet.BundleState) {
	row := Attention{State: state, Kind: "Bundle", Name: keyOf(b).String(), Reason: string(state)}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionReady); c != nil && c.Status == corev1.ConditionFalse {
		row.Since = utcPointer(changedAt(c))
	}
	if at := b.DeletionTimestamp; at != nil && row.Since != nil && row.Since.Before(at.Time) {
		row.Since = utcPointer(at.Time)
	}
	var n int
	var found []*fleet.NonReadyResource
	if state == fleet.ErrApplied {
		n, found = ac.addStuck(b, state)
		n, found = ac.addDependencyWaits(b, row.Since, n, found)
	} else {
		n, found = ac.countPresent(b, state)
	}
	if state == fleet.NotReady {
		n, found = ac.unpaused(b, n, found)
	}
	if n == 0 {
		return
	}
	if state == fleet.ErrApplied && len(found) > 0 {
		ac.list = append(ac.list, errorRows(row, n, found)...)
		return
	}
	row.Clusters.Count = n
	failed := false
	for _, r := range found {
		row.Clusters.Sample = append(row.Clusters.Sample, r.Name)
		failed = failed || len(r.NonReadyStatus) == 0 || summary.GivenUp(r.Message) || slices.ContainsFunc(r.NonReadyStatus, func(o fleet.NonReadyStatus) bool {
			return o.Summary.Error
		})
	}
	if len(found) > 0 {
		worst := slices.IndexFunc(found, func(r *fleet.NonReadyResource) bool { return summary.GivenUp(r.Message) })
		row.Message = resourceMessage(found[max(0, worst)])
	}
	if state == fleet.NotReady && !failed && row.Since != nil && ac.now.Sub(*row.Since) < unreadyGrace {
		ac.addMoving(b, row.Message)
		return
	}
	ac.list = append(ac.list, row)
}

// unpaused leaves out deployments that are NotReady only because they were never
// deployed while their Bundle, GitRepo or Cluster is paused: PausedObjects lists
// those.
func (ac *attentionCollector) unpaused(b *fleet.Bundle, n int, found []*fleet.NonReadyResource) (int, []*fleet.NonReadyResource) {
	var left []*fleet.NonReadyResource
	for _, r := range found {
		if resourceMessage(r) != "" || !b.Spec.Paused && !ac.paused[parseKey(r.Name)] {
			left = append(left, r)
		}
	}
	if len(left) == len(found) {
		return n, found
	}
	ac.holding, ac.reported[ownerOf(b)] = true, true
	if len(left) == 0 && b.Spec.Paused {
		return 0, nil // also those that the summary does not name
	}
	return n - len(found) + len(left), left
}

// addBundleWaits adds the deployments of a Bundle that are on their way to
// clusters that are online.
func (ac *attentionCollector) addBundleWaits(b *fleet.Bundle) {
	var first string
	waiting := 0
	for _, state := range []fleet.BundleState{fleet.WaitApplied, fleet.OutOfSync, fleet.Pending} {
		n, found := ac.addStuck(b, state)
		waiting += n
		if first == "" && len(found) > 0 {
			first = found[0].Message
		}
	}
	unseen := len(b.Status.Conditions) == 0
	switch {
	case waiting == 0 && !unseen && !isBehindSpec(b):
		return
	case !unseen && isBehindSpec(b) && first == "":
		first = notWorkedOn
	case b.Spec.Paused && !unseen: // PausedObjects lists it
		ac.holding = true
		return
	}
	ac.addMoving(b, first)
}

// addMoving adds a Bundle to what moves, once.
func (ac *attentionCollector) addMoving(b *fleet.Bundle, why string) {
	name := keyOf(b).String()
	if slices.ContainsFunc(ac.moving, func(m Moving) bool { return m.Kind == "Bundle" && m.Name == name }) {
		return
	}
	m := Moving{
		Kind: "Bundle", Name: name, Commit: b.Labels[fleet.LabelCommit], Reason: cmp.Or(ac.fleet.Unmanaged(b), why),
		Ready: b.Status.Summary.Ready, Desired: b.Status.Summary.DesiredReady,
	}
	if len(b.Status.PartitionStatus) > 1 {
		for _, p := range b.Status.PartitionStatus {
			m.Partitions = append(m.Partitions, Partition{Name: p.Name, Ready: p.Summary.Ready, Count: p.Count})
		}
	}
	ac.moving = append(ac.moving, m)
}

// countPresent counts a Bundle's deployments in a state on clusters that are not away, and
// returns those that its summary names. The summary names ten at most. If all that it names
// are away, the others are assumed to be away too, provided that at least as many clusters
// are away as the Bundle has deployments in that state.
func (ac *attentionCollector) countPresent(b *fleet.Bundle, state fleet.BundleState) (int, []*fleet.NonReadyResource) {
	n := countOf(&b.Status.Summary, state)
	named, away := 0, 0
	var found []*fleet.NonReadyResource
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if r.State != state {
			continue
		}
		named++
		if ac.offlineClusters[parseKey(r.Name)] {
			away++
			continue
		}
		found = append(found, r)
	}
	if named > 0 && away == named && n <= ac.aways[b.Namespace] {
		return 0, nil
	}
	return n - away, found
}

func countOf(s *fleet.BundleSummary, state fleet.BundleState) int {
	switch state {
	case fleet.ErrApplied:
		return s.ErrApplied
	case fleet.WaitApplied:
		return s.WaitApplied
	case fleet.Modified:
		return s.Modified
	case fleet.OutOfSync:
		return s.OutOfSync
	case fleet.Pending:
		return s.Pending
	case fleet.NotReady:
		return s.NotReady
	}
	return s.Ready
}

// clusterConditions are those that, where they are False, keep a cluster from
// working at all.
var clusterConditions = []string{fleet.ConditionProcessed, fleet.ConditionImported, fleet.ConditionReconciled}

// cluster looks at a Cluster apart from its bundles.
func (ac *attentionCollector) cluster(c *fleet.Cluster) {
	created := c.CreationTimestamp.Time
	if ClusterState(c) == fleet.WaitCheckIn && ac.now.Sub(created) >= checkInGrace {
		ac.clusterRow(c, Attention{
			State: fleet.WaitCheckIn, Reason: fleet.ReasonNeverSeen,
			Since: utcPointer(created), Message: neverSeen,
		})
	}
	going := ac.removal("Cluster", c, c.Status.Conditions, c.Status.Summary.Ready, c.Status.Summary.DesiredReady)
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionDeletionHeld); cond != nil && cond.Status == corev1.ConditionTrue && !going {
		ac.clusterRow(c, Attention{State: Held, Reason: cond.Reason, Since: utcPointer(changedAt(cond)), Message: cond.Message})
	}
	for _, kind := range clusterConditions {
		if cond := condition.Find(c.Status.Conditions, kind); cond != nil && cond.Status == corev1.ConditionFalse && cond.Reason != "" {
			ac.clusterRow(c, Attention{
				State: fleet.NotReady, Reason: cond.Reason, Since: utcPointer(changedAt(cond)), Message: cond.Message,
			})
		}
	}
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionReady); cond != nil && cond.Reason == fleet.ReasonAgentTrouble {
		ac.clusterRow(c, Attention{State: fleet.NotReady, Reason: cond.Reason, Since: utcPointer(changedAt(cond)), Message: cond.Message})
	}
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionDuplicateIdentity); cond != nil && cond.Status == corev1.ConditionTrue {
		ac.clusterRow(c, Attention{
			State: fleet.NotReady, Reason: fleet.ConditionDuplicateIdentity, Since: utcPointer(changedAt(cond)), Message: cond.Message,
		})
	}
	if o := c.Status.Agent.Orphans; o != nil && o.Count > 0 {
		ac.clusterRow(c, Attention{
			State: fleet.ResourceOrphaned, Reason: fleet.ResourceOrphaned,
			Message: fmt.Sprintf("kept at its last check-in, and nobody ordered to uninstall it: %s", List(o.Names, 3)),
		})
	}
}

func (ac *attentionCollector) clusterRow(c *fleet.Cluster, a Attention) {
	key := keyOf(c).String()
	a.Kind, a.Name, a.Clusters = "Cluster", key, Sample{Count: 1, Sample: []string{key}}
	ac.list = append(ac.list, a)
}

// rows are the rows, worst first, those of clusters with the same trouble
// put together.
func (ac *attentionCollector) rows() []Attention {
	var out []Attention
	same := map[string]int{}
	for _, a := range ac.list {
		id := strings.Join([]string{string(a.State), a.Reason, a.Message}, "\x00")
		if i, ok := same[id]; ok && a.Kind == "Cluster" {
			first := &out[i]
			first.Clusters.Count++
			if len(first.Clusters.Sample) < fleet.StatusListLimit {
				first.Clusters.Sample = append(first.Clusters.Sample, a.Name)
			}
			if a.Since != nil && (first.Since == nil || a.Since.Before(*first.Since)) {
				first.Since = a.Since
			}
			continue
		}
		if a.Kind == "Cluster" {
			same[id] = len(out)
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b Attention) int {
		return cmp.Or(severity(a.State)-severity(b.State), strings.Compare(a.Name, b.Name))
	})
	return out
}

// severity orders what needs attention: what is broken first.
func severity(s fleet.BundleState) int {
	order := []fleet.BundleState{
		fleet.Offline, fleet.ErrApplied, fleet.NotReady, fleet.Modified, fleet.WaitCheckIn, Unreadable, Held,
	}
	if i := slices.Index(order, s); i >= 0 {
		return i
	}
	return len(order)
}

func reasonOf(c *fleet.Condition) string {
	if c == nil {
		return ""
	}
	return c.Reason
}
