package bundle

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// statusBytes returns the size of a status as JSON.
func statusBytes(status any) int {
	raw, err := json.Marshal(status)
	if err != nil {
		return 1
	}
	return len(raw)
}

// A statusController writes the status of Bundles, GitRepos, HelmOps, Clusters and ClusterGroups.
type statusController struct {
	*base
	bundles        *kube.Store[*fleet.Bundle]
	clusters       *kube.Store[*fleet.Cluster]
	groups         *kube.Store[*fleet.ClusterGroup]
	repos          *kube.Store[*fleet.GitRepo]
	helmOps        *kube.Store[*fleet.HelmOp]
	deletionBudget *deletionBudget
	guards         *guards
	targeting      *targeting
}

// reportBundle writes the status of a Bundle.
func (sc *statusController) reportBundle(ctx context.Context, key kube.Key) (int, error) {
	b, facts, accepted, ok := sc.table.BundleFacts(key)
	if !ok {
		return 0, nil
	}
	status := summary.BundleStatus(&b.Status, facts, sc.now())
	status.Conditions = sc.setAccepted(status.Conditions, accepted)
	status.Conditions = sc.setDeletionHeld(status.Conditions, fleetstate.Subject{Kind: fleetstate.KindBundle, Key: key}, b.Generation)
	if sc.status[fleetstate.KindBundle].isWritten(key, b.Status, status) {
		return 0, nil
	}
	changed := shallowCopy(b)
	changed.Status = status
	got, err := sc.bundles.PatchStatus(ctx, b, changed)
	if kube.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	sc.status[fleetstate.KindBundle].setAnswer(key, got.Status, status)
	sc.observe(got)
	if delta := newlyFalse(b.Status.Conditions, status.Conditions, fleet.ConditionAccepted); delta != nil {
		sc.events.Event(got, kube.Warning, delta.Reason, delta.Message)
	}
	if delta := newlyUnrendered(b.Status.Conditions, status.Conditions); delta != nil {
		sc.events.Event(got, kube.Warning, delta.Reason, delta.Message)
	}
	return statusBytes(status), nil
}

// setAccepted puts condition Accepted into a list; if c is nil it removes the
// condition.
func (sc *statusController) setAccepted(list []fleet.Condition, c *fleet.Condition) []fleet.Condition {
	if c == nil {
		return condition.Remove(list, fleet.ConditionAccepted)
	}
	return condition.Set(list, *c, sc.now())
}

// newlyFalse returns a condition that has become False, or False with another reason or
// message; nil if there is none.
func newlyFalse(old, now []fleet.Condition, kind string) *fleet.Condition {
	c := condition.Find(now, kind)
	if c == nil || c.Status != "False" {
		return nil
	}
	if was := condition.Find(old, kind); was != nil && was.Status == c.Status && was.Message == c.Message {
		return nil
	}
	return c
}

// newlyUnrendered returns condition ValuesRendered if it was not there before. A
// different number of clusters is not a change: otherwise each cluster that joins would
// cause an event.
func newlyUnrendered(old, now []fleet.Condition) *fleet.Condition {
	if condition.Find(old, fleet.ConditionValuesRendered) != nil {
		return nil
	}
	return condition.Find(now, fleet.ConditionValuesRendered)
}

// shallowCopy returns a copy of a Bundle whose status the caller may replace.
func shallowCopy(b *fleet.Bundle) *fleet.Bundle {
	out := *b
	return &out
}

// namesBundles reports whether the status of a GitRepo names exactly the known Bundles.
// The watch may deliver the GitRepo before its Bundles.
func (sc *statusController) namesBundles(repo *fleet.GitRepo) bool {
	_, own := sc.table.RepoAndBundles(kube.KeyOf(repo))
	shows, known := reading.Shows(repo, own)
	return shows || !known
}

// reportRepo writes the summary in the status of a GitRepo. It does not report Ready
// while a Bundle of the repository is missing in the cache, or has a version that was
// not planned.
func (sc *statusController) reportRepo(ctx context.Context, key kube.Key) (int, error) {
	repo, sources, fresh, ok := sc.table.RepoFacts(key)
	if !ok {
		return 0, nil
	}
	status := *repo.Status.DeepCopy()
	if repo.DeletionTimestamp == nil { // otherwise only condition DeletionHeld is written
		status = summary.GitRepoStatus(repo, sources, sc.now())
	}
	status.Conditions = sc.setDeletionHeld(status.Conditions, fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key}, repo.Generation)
	status.Conditions = sc.setBudgetCondition(status.Conditions, repo, sc.workspaceBudget(repo.Namespace))
	becomes := condition.IsTrue(status.Conditions, fleet.ConditionReady) && !condition.IsTrue(repo.Status.Conditions, fleet.ConditionReady)
	if becomes && (!fresh || !sc.namesBundles(repo)) {
		return 0, nil
	}
	if sc.status[fleetstate.KindGitRepo].isWritten(key, repo.Status, status) {
		return 0, nil
	}
	changed := *repo
	changed.Status = status
	got, err := sc.repos.PatchStatus(ctx, repo, &changed)
	if kube.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	sc.status[fleetstate.KindGitRepo].setAnswer(key, got.Status, status)
	got.ManagedFields = nil
	sc.enqueue(sc.table.SetRepo(got))
	if delta := newlyFalse(repo.Status.Conditions, status.Conditions, fleet.ConditionDeletionBudget); delta != nil {
		sc.events.Event(got, kube.Warning, delta.Reason, delta.Message)
	}
	if delta := newlyUnrendered(repo.Status.Conditions, status.Conditions); delta != nil {
		sc.events.Event(got, kube.Warning, delta.Reason, delta.Message)
	}
	return statusBytes(status), nil
}

// reportCluster writes the summary part of a Cluster's status.
func (sc *statusController) reportCluster(ctx context.Context, key kube.Key) (int, error) {
	c, facts, ok := sc.table.ClusterFacts(key)
	if !ok || c.DeletionTimestamp != nil {
		return 0, nil
	}
	status := summary.ClusterStatus(c, facts, sc.now())
	status.Conditions = condition.Remove(status.Conditions, fleet.ConditionAccepted) // of an earlier version, which did not act on all fields
	if sc.status[fleetstate.KindCluster].isWritten(key, c.Status, status) {
		return 0, nil
	}
	changed := *c
	changed.Status = status
	got, err := sc.clusters.PatchStatus(ctx, c, &changed)
	if kube.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	sc.status[fleetstate.KindCluster].setAnswer(key, got.Status, status)
	sc.targeting.observeCluster(got)
	if delta := newlyFalse(c.Status.Conditions, status.Conditions, fleet.ConditionAccepted); delta != nil {
		sc.events.Event(got, kube.Warning, delta.Reason, delta.Message)
	}
	return statusBytes(status), nil
}

// reportGroup writes the status of a ClusterGroup.
func (sc *statusController) reportGroup(ctx context.Context, key kube.Key) (int, error) {
	g, members, ok := sc.table.GroupFacts(key)
	if !ok || g.DeletionTimestamp != nil {
		return 0, nil
	}
	status := summary.GroupStatus(g, members, sc.now())
	if sc.status[fleetstate.KindGroup].isWritten(key, g.Status, status) {
		return 0, nil
	}
	changed := *g
	changed.Status = status
	got, err := sc.groups.PatchStatus(ctx, g, &changed)
	if kube.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	sc.status[fleetstate.KindGroup].setAnswer(key, got.Status, status)
	got.ManagedFields = nil
	delta, changes := sc.table.SetGroup(got)
	sc.enqueue(delta)
	for _, change := range changes {
		sc.targeting.enqueueAffected(key.Namespace, change)
	}
	return statusBytes(status), nil
}

// setDeletionHeld sets condition DeletionHeld while something waits for an approval. It
// keeps the condition unchanged until the first verdict of this process.
func (sc *statusController) setDeletionHeld(list []fleet.Condition, s fleetstate.Subject, generation int64) []fleet.Condition {
	if b, ok := sc.table.Bundle(s.Key); ok && s.Kind == fleetstate.KindBundle && b.DeletionTimestamp != nil {
		return sc.guards.setDeletionHeld(list, b)
	}
	v, known := sc.deletionBudget.verdict(s)
	switch {
	case !known:
		return list
	case !v.Held:
		return condition.Remove(list, fleet.ConditionDeletionHeld)
	}
	return condition.Set(list, fleet.Condition{
		Type: fleet.ConditionDeletionHeld, Status: corev1.ConditionTrue, ObservedGeneration: generation,
		Reason: heldReason(v.Protected), Message: v.Message(approveCommand(s, v.Hash)),
	}, sc.now())
}

// setBudgetCondition sets condition DeletionBudget on a GitRepo while the budget of its
// workspace applies and cannot be parsed.
func (sc *statusController) setBudgetCondition(list []fleet.Condition, repo *fleet.GitRepo, shared string) []fleet.Condition {
	text := withdrawal.SharedBudgetFault(repo.Annotations[fleet.AnnotationDeletionBudget], repo.Namespace, shared)
	if text == "" {
		return condition.Remove(list, fleet.ConditionDeletionBudget)
	}
	return condition.Set(list, fleet.Condition{
		Type: fleet.ConditionDeletionBudget, Status: corev1.ConditionFalse, ObservedGeneration: repo.Generation,
		Reason: withdrawal.ReasonInvalidBudget, Message: condition.Message(text),
	}, sc.now())
}
