package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// holdLinks judges what can hold the newest version back: policy, pause and rollout.
type holdLinks struct{ *bundleOnCluster }

// policyLink looks at what may forbid the Bundle.
func (h holdLinks) policyLink() linkState {
	if text := support.BlockReason(&h.Bundle.Spec); text != "" {
		return stop(fleet.ReasonNotImplemented, text).withSince(view.ChangedAt(h.Bundle.Status.Conditions, fleet.ConditionReady)).
			hint("to deploy it with this version", "remove that field from %s", h.file())
	}
	if err := h.refusal(); err != nil {
		return h.refusedLink(err)
	}
	if h.problem != nil && linkOf(h.problem.Reason) == Policy {
		return stop(h.problem.Reason, h.problem.Message).withSince(view.ChangedAt(h.Bundle.Status.Conditions, fleet.ConditionReady))
	}
	return h.allowedLink()
}

// allowedLink names the objects that limit the namespace and allow the Bundle.
func (h holdLinks) allowedLink() linkState {
	ns := h.Bundle.Namespace
	if names := h.limitNames(); len(names) > 0 {
		return ok("allowed by %s", view.List(names, 3)).withEvidence("limits", len(names))
	}
	var seen, unseen []string
	for _, kind := range limitingKinds {
		if plural, _, known := fleet.Resource(kind); known && h.isForbidden(plural) {
			unseen = append(unseen, kind)
		} else {
			seen = append(seen, kind)
		}
	}
	switch {
	case len(seen) == 0 && len(unseen) > 0:
		return linkState{Link: Link{Verdict: Unknown, Reason: "Forbidden", Text: "not yours to see: " + strings.Join(unseen, ", ") + " in " + ns}}
	case len(unseen) > 0:
		return ok("no %s in %s; not yours to see: %s", strings.Join(seen, ", "), ns, strings.Join(unseen, ", "))
	}
	return ok("no %s in %s", strings.Join(seen, ", "), ns)
}

// braked is how texts about the brake begin, in the manager's status as well.
const globalPausePrefix = "suspended"

// pauseLink judges whether the Bundle, the cluster or everything is paused. A pause holds
// back nothing where everything is as it should be.
func (h holdLinks) pauseLink() linkState {
	b, c, bd := h.Bundle, h.deploymentPlace.Cluster, h.deploymentPlace.Deployment
	agentWaits := bd != nil && bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || h.state == fleet.Modified
	closed := ""
	if bd != nil {
		closed = view.WindowClosed(bd, h.Now)
	}
	brake := h.Brake
	brake.Since = nil
	switch repo := b.Labels[fleet.LabelRepoName]; {
	case h.Brake.On && (h.outdated || !h.observed()):
		j := stop(fleet.ReasonSuspended, brake.Text(h.Now)).hint("to go on", "fleet resume --all")
		if h.Brake.Since != nil {
			j = j.withSince(*h.Brake.Since)
		}
		return j.withEvidence("by", h.Brake.By)
	case h.reported != nil && h.outdated && strings.HasPrefix(h.reported.Message, globalPausePrefix):
		return stop(fleet.ReasonSuspended, h.reported.Message).hint("to go on", "fleet resume --all")
	case b.Spec.Paused && h.Repo != nil && h.Repo.Spec.Paused:
		return h.paused("repo "+repo, "repo", h.Repo)
	case b.Spec.Paused:
		return h.paused("the bundle", "bundle", b)
	case c != nil && c.Spec.Paused:
		return h.paused("the cluster", "cluster", c)
	case bd != nil && bd.Spec.Paused && agentWaits:
		return wait(ReasonPaused, "its deployment is paused; the manager has not let it go on yet")
	case closed != "" && agentWaits:
		return wait(release.ReasonOutsideWindow, closed).hint("to deploy it at once",
			"kubectl -n %s annotate bundledeployments.%s %s '%s=%s REASON'", bd.Namespace, fleet.Group, bd.Name,
			fleet.AnnotationOpenUntil, h.Now.Add(time.Hour).UTC().Format(time.RFC3339))
	case h.Brake.On:
		return ok("%s, and nothing waits for it", brake.Text(h.Now))
	case h.isForbidden(ConfigMaps) && h.outdated && h.reported == nil:
		return h.hiddenLink(ConfigMaps)
	case h.place == nil && h.isHidden():
		return h.hiddenLink(Clusters)
	case h.place == nil:
		return ok("the bundle is not paused; the cluster is not yours to see")
	}
	return ok("nothing is paused")
}

// paused is the judgement about a paused object. what names it in the text, word is its
// kind in commands.
func (h holdLinks) paused(what, word string, o metav1.Object) linkState {
	by, tail := view.PauseOf(o), ""
	j := stop(ReasonPaused, "").withSince(h.heldSince(by)).hint("to go on", "fleet resume %s/%s -n %s", word, o.GetName(), o.GetNamespace())
	if !h.outdated && h.state == fleet.Ready {
		j, tail = ok(""), "; nothing waits for it"
	}
	if tail != "" {
		j.paused = what + " is " + by.Text(time.Time{})
	}
	j.Text = what + " is " + by.Text(time.Time{}) + tail
	if by.Since != nil {
		j = j.withScreenText(what + " is " + by.Text(h.Now) + tail)
	}
	return j.pausedBy(by)
}

// pausedBy adds who has paused something, and why.
func (l linkState) pausedBy(by view.Pause) linkState {
	l = l.withEvidence("by", by.By).withEvidence("why", by.Reason)
	if by.Since != nil {
		l = l.withEvidence("pausedAt", *by.Since)
	}
	return l
}

// heldSince is since when a pause holds a version back: since that was staged, or
// since the pause, whichever came later.
func (h holdLinks) heldSince(by view.Pause) time.Time {
	var since time.Time
	if bd := h.deploymentPlace.Deployment; h.outdated && bd != nil && bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID {
		since = h.deploymentPlace.Written
	}
	if by.Since != nil && by.Since.After(since) {
		since = *by.Since
	}
	return since
}

// frozen names the limit of the rollout strategy that lets no running cluster through:
// 0 for all of them, or for the cluster's partition or an incomplete one before it.
func (h holdLinks) frozen(own int) string {
	s := h.Bundle.Spec.RolloutStrategy
	if s == nil {
		return ""
	}
	none := func(limit *intstr.IntOrString) bool {
		if limit == nil {
			return false
		}
		n, err := rollout.Limit(1, limit)
		return err == nil && n == 0
	}
	if none(s.MaxUnavailable) {
		return "rolloutStrategy.maxUnavailable"
	}
	parts := h.Bundle.Status.PartitionStatus
	for i := range s.Partitions[:min(own+1, len(s.Partitions))] {
		complete := i < own && i < len(parts) && parts[i].Summary.Ready >= parts[i].Count
		if none(s.Partitions[i].MaxUnavailable) && !complete {
			return fmt.Sprintf("maxUnavailable of partition %q in rolloutStrategy", s.Partitions[i].Name)
		}
	}
	return ""
}

// rolloutLink looks at limits and partitions. It repeats what the manager says of the
// cluster, or of others of the same partition.
func (h holdLinks) rolloutLink() linkState {
	b, bd := h.Bundle, h.deploymentPlace.Deployment
	if c := h.problem; c != nil && linkOf(c.Reason) == Rollout {
		return stop(c.Reason, c.Message).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct rolloutStrategy in %s", h.file())
	}
	if err := h.partitionFault(); err != nil {
		return stop(reasonOf(err), err.Error()).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct that selector of rolloutStrategy.partitions in %s", h.file())
	}
	if h.place == nil && h.isHidden() {
		return h.hiddenLink(Clusters)
	}
	own, manual := h.partition()
	if manual && own < 0 && h.place != nil {
		return h.leftOut()
	}
	if !h.outdated || h.Manager.IsGone() {
		return h.released(own) // without a manager no cluster is let through; the delivery step says so
	}
	if j := h.unreplaced(); j.stops() {
		return j
	}
	waits := func(text string) linkState {
		j := wait(fleet.ReasonDeferred, text)
		j = h.stopIfLimitZero(j, own)
		j = j.hint("to see what holds it", "fleet get deployments -n %s --bundle %s --not-ready", b.Namespace, b.Name)
		who, since := h.waits()
		if bd != nil && bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID && bd.Spec.StagedDeploymentID == cmp.Or(h.wanted, bd.Spec.StagedDeploymentID) {
			since = h.deploymentPlace.Written
		}
		if who != "" {
			j = j.detail(who)
		}
		return h.addPartitionProgress(j.withSince(since), own)
	}
	switch {
	case h.step != nil && !h.step.Move && h.step.Reason != "":
		return waits(h.step.Reason)
	case h.step != nil:
		return h.released(own)
	case h.reported != nil && holdReason(h.reported) != "":
		return waits(holdReason(h.reported))
	case h.reported != nil && h.reported.State == fleet.ErrApplied && bd == nil:
		return h.released(own)
	case bd != nil:
		return waits(h.otherClustersReason(own))
	}
	return h.released(own)
}

// unreplaced stops where the newest version makes another release in the place of the one
// that the cluster has, and that waits for a person: the manager lists it on the GitRepo, or
// on a Bundle without one. Before that, no limit of the rollout matters.
func (h holdLinks) unreplaced() linkState {
	b, bd := h.Bundle, h.deploymentPlace.Deployment
	if bd == nil {
		return linkState{}
	}
	o, list, kind, item := metav1.Object(b), b.Status.Conditions, "bundle", "deployment "+h.deploymentPlace.Key.String()
	if h.Repo != nil {
		o, list, kind, item = h.Repo, h.Repo.Status.Conditions, "repo", "bundle "+b.Name
	}
	if !condition.IsTrue(list, fleet.ConditionDeletionHeld) || view.Approval(o, list) != "" {
		return linkState{}
	}
	_, _, lines := withdrawal.ReadText(o.GetAnnotations()[fleet.AnnotationDeletionHeld])
	from := fmt.Sprintf("%s: %s", item, withdrawal.ReplacementPrefix(release.ParseID(bd.Status.Release)))
	for _, line := range lines {
		if strings.HasPrefix(line, from) {
			return stop(fleet.ReasonDeletionHeld, strings.TrimPrefix(line, item+": ")+withdrawal.UntilApproved).withSince(view.ChangedAt(list, fleet.ConditionDeletionHeld)).
				hint("to see the whole list", "fleet approve -n %s %s/%s", b.Namespace, kind, o.GetName())
		}
	}
	return linkState{}
}

// stopIfLimitZero makes a judgement that waits for a limit of 0 one that stops: that does not pass
// by itself.
func (h holdLinks) stopIfLimitZero(j linkState, own int) linkState {
	named := rollout.ZeroLimit(j.Text)
	limit := cmp.Or(named, h.frozen(own))
	if limit == "" {
		return j
	}
	comes := "no cluster that runs is updated"
	if named != "" && h.isNew() {
		comes = "no cluster gets the bundle that does not have it"
	}
	j.Verdict = Stop
	return j.detail(limit+" is 0: "+comes).hint("to let it through", "raise %s in %s", limit, h.file())
}

// isNew reports whether the cluster does not have the bundle, in any version: where the
// deployment may not be read, whether the Bundle's status says so.
func (b *bundleOnCluster) isNew() bool {
	if b.deploymentPlace.Deployment == nil && b.isForbidden(Deployments) {
		return b.reported != nil && b.reported.State == fleet.Pending
	}
	return b.deploymentPlace.Deployment == nil
}

// leftOut is the judgement about a cluster that is in no partition.
func (h holdLinks) leftOut() linkState {
	const text = "in no partition of the rollout strategy"
	if !h.outdated {
		return ok("%s: it keeps this version", text)
	}
	return stop(ReasonNoPartition, text).detail("with partitions of its own a rollout leaves out all clusters that none of them selects").
		withEvidence("partitions", len(h.Bundle.Spec.RolloutStrategy.Partitions)).
		hint("to let it take part", "add a partition that selects %s to rolloutStrategy.partitions in %s", h.deploymentPlace.Key.Name, h.file())
}

// holdReason is why the manager holds a cluster back, by its status; empty where that
// is not what it says.
func holdReason(r *fleet.NonReadyResource) string {
	if r.State != fleet.OutOfSync && r.State != fleet.Pending {
		return ""
	}
	return r.Message
}

// partition is which partition the cluster is in, from 0; below 0: it is in none
// or that is not known. manual reports that the strategy lists partitions.
func (h holdLinks) partition() (own int, manual bool) {
	s := h.Bundle.Spec.RolloutStrategy
	if s == nil || len(s.Partitions) == 0 {
		if len(h.Bundle.Status.PartitionStatus) == 1 {
			return 0, false
		}
		return h.partitionOfCluster(), false
	}
	if h.place == nil {
		return -1, true
	}
	for i := range s.Partitions {
		filter, err := filterOf(&s.Partitions[i], i)
		if err == nil && filter.Selects(&h.place.Cluster) {
			return i, true
		}
	}
	return -1, true
}

// filterOf compiles partition i.
func filterOf(d *fleet.Partition, i int) (target.Filter, error) {
	return target.NewFilter(target.Criteria{
		Name: d.Name, ClusterName: d.ClusterName, ClusterSelector: d.ClusterSelector,
		ClusterGroup: d.ClusterGroup, ClusterGroupSelector: d.ClusterGroupSelector,
	}, "partition", i)
}

// partitionFault is the error of the first partition whose selector cannot be used.
func (h holdLinks) partitionFault() error {
	if s := h.Bundle.Spec.RolloutStrategy; s != nil {
		for i := range s.Partitions {
			if _, err := filterOf(&s.Partitions[i], i); err != nil {
				return err
			}
		}
	}
	return nil
}

// partitionOfCluster is the automatic partition whose status names the cluster.
func (h holdLinks) partitionOfCluster() int {
	for i := range h.Bundle.Status.PartitionStatus {
		if view.SummaryEntry(&h.Bundle.Status.PartitionStatus[i].Summary, h.deploymentPlace.Key) != nil {
			return i
		}
	}
	return -1
}

// otherClustersReason is why other clusters are held back, those of the same partition first;
// all of a partition wait for the same.
func (h holdLinks) otherClustersReason(own int) string {
	parts := h.Bundle.Status.PartitionStatus
	var lists []*fleet.BundleSummary
	if own >= 0 && own < len(parts) {
		lists = append(lists, &parts[own].Summary)
	}
	lists = append(lists, &h.Bundle.Status.Summary)
	for i := range parts {
		lists = append(lists, &parts[i].Summary)
	}
	for _, list := range lists {
		for i := range list.NonReadyResources {
			if text := holdReason(&list.NonReadyResources[i]); strings.HasPrefix(text, "waits for ") {
				return text
			}
		}
	}
	st := h.Bundle.Status
	return fmt.Sprintf("waits for its turn in the rollout: %d unavailable, %d allowed", st.Unavailable, st.MaxUnavailable)
}

// released is a rollout that lets the cluster through.
func (h holdLinks) released(own int) linkState {
	st := h.Bundle.Status
	parts := st.PartitionStatus
	if h.offline && h.outdated {
		return ok("deferred: its cluster is Offline, not counted as unavailable")
	}
	switch {
	case own >= 0 && own < len(parts) && (len(parts) > 1 || parts[own].Name != rollout.Everything):
		q := parts[own]
		return ok("partition %d of %d, %s: %d of %d unavailable, %d allowed", own+1, len(parts), q.Name, q.Unavailable, q.Count, q.MaxUnavailable).
			withEvidence("partition", q.Name).withEvidence("unavailable", q.Unavailable).withEvidence("maxUnavailable", q.MaxUnavailable)
	case len(parts) > 1:
		return ok("one of %d partitions; %d of %d unavailable, %d allowed", len(parts), st.Unavailable, st.Summary.DesiredReady, st.MaxUnavailable)
	case len(parts) == 1 && parts[0].MaxUnavailable >= parts[0].Count:
		return ok("one partition of %d, all at once", parts[0].Count).withEvidence("partition", parts[0].Name)
	}
	return ok("one partition of %d, at most %d unavailable", st.Summary.DesiredReady, st.MaxUnavailable).withEvidence("unavailable", st.Unavailable).
		withEvidence("maxUnavailable", st.MaxUnavailable)
}

// addPartitionProgress adds how the partitions stand.
func (h holdLinks) addPartitionProgress(j linkState, own int) linkState {
	parts := h.Bundle.Status.PartitionStatus
	if len(parts) < 2 {
		return j
	}
	for i := range parts {
		q := &parts[i]
		if i == own || q.Summary.Ready >= q.Count {
			continue
		}
		if own >= 0 && i > own || len(j.Details) >= maxDetails {
			break
		}
		j = j.detail(fmt.Sprintf("%s: %d of %d Ready, %d may be unavailable", q.Name, q.Summary.Ready, q.Count, q.MaxUnavailable))
	}
	if own >= 0 && own < len(parts) {
		j = j.withEvidence("partition", parts[own].Name)
	}
	return j.withEvidence("unavailable", h.Bundle.Status.Unavailable).withEvidence("maxUnavailable", h.Bundle.Status.MaxUnavailable)
}
