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
	bundles        statusStore[*fleet.Bundle]
	clusters       statusStore[*fleet.Cluster]
	groups         statusStore[*fleet.ClusterGroup]
	repos          statusStore[*fleet.GitRepo]
	helmOps        statusStore[*fleet.HelmOp]
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
	changed := shallowCopy(b)
	changed.Status = status
	got, size, err := sc.bundles.write(ctx, b, changed)
	if size == 0 {
		return 0, err
	}
	sc.observe(got)
	sc.warn(got, newlyFalse(b.Status.Conditions, status.Conditions, fleet.ConditionAccepted))
	sc.warn(got, newlyUnrendered(b.Status.Conditions, status.Conditions))
	return size, nil
}

// A statusStore writes the status of the objects of one kind.
type statusStore[P kube.Object] struct {
	base   *base
	kind   string // its reporter
	store  *kube.Store[P]
	status func(P) any
}

// write writes the status of changed, and returns the object that the API server has stored
// and the size of the status in bytes. The size is 0 if nothing was written: old has that
// status, or the object is gone.
func (ss statusStore[P]) write(ctx context.Context, old, changed P) (stored P, size int, err error) {
	reporter, key, status := ss.base.status[ss.kind], kube.KeyOf(old), ss.status(changed)
	if reporter.isWritten(key, ss.status(old), status) {
		return old, 0, nil
	}
	stored, err = ss.store.PatchStatus(ctx, old, changed)
	if err != nil {
		return old, 0, kube.IgnoreGone(err)
	}
	reporter.setAnswer(key, ss.status(stored), status)
	return stored, statusBytes(status), nil
}

// warn emits an event with the reason and the message of a condition, unless it is nil.
func (sc *statusController) warn(o kube.Object, c *fleet.Condition) {
	if c != nil {
		sc.events.Event(o, kube.Warning, c.Reason, c.Message)
	}
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
	changed := *repo
	changed.Status = status
	got, size, err := sc.repos.write(ctx, repo, &changed)
	if size == 0 {
		return 0, err
	}
	got.ManagedFields = nil
	sc.enqueue(sc.table.SetRepo(got))
	sc.warn(got, newlyFalse(repo.Status.Conditions, status.Conditions, fleet.ConditionDeletionBudget))
	sc.warn(got, newlyUnrendered(repo.Status.Conditions, status.Conditions))
	return size, nil
}

// reportCluster writes the summary part of a Cluster's status.
func (sc *statusController) reportCluster(ctx context.Context, key kube.Key) (int, error) {
	c, facts, ok := sc.table.ClusterFacts(key)
	if !ok || c.DeletionTimestamp != nil {
		return 0, nil
	}
	status := summary.ClusterStatus(c, facts, sc.now())
	status.Conditions = condition.Remove(status.Conditions, fleet.ConditionAccepted) // of an earlier version, which did not act on all fields
	changed := *c
	changed.Status = status
	got, size, err := sc.clusters.write(ctx, c, &changed)
	if size == 0 {
		return 0, err
	}
	sc.targeting.observeCluster(got)
	sc.warn(got, newlyFalse(c.Status.Conditions, status.Conditions, fleet.ConditionAccepted))
	return size, nil
}

// reportGroup writes the status of a ClusterGroup.
func (sc *statusController) reportGroup(ctx context.Context, key kube.Key) (int, error) {
	g, members, ok := sc.table.GroupFacts(key)
	if !ok || g.DeletionTimestamp != nil {
		return 0, nil
	}
	status := summary.GroupStatus(g, members, sc.now())
	changed := *g
	changed.Status = status
	got, size, err := sc.groups.write(ctx, g, &changed)
	if size == 0 {
		return 0, err
	}
	got.ManagedFields = nil
	delta, changes := sc.table.SetGroup(got)
	sc.enqueue(delta)
	for _, change := range changes {
		sc.targeting.enqueueAffected(key.Namespace, change)
	}
	return size, nil
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
