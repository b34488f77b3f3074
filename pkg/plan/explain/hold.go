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
func (p holdLinks) policyLink() linkState {
	ns := p.Bundle.Namespace
	if text := support.BlockReason(&p.Bundle.Spec); text != "" {
		return stop(fleet.ReasonNotImplemented, text).withSince(view.ChangedAt(p.Bundle.Status.Conditions, fleet.ConditionReady)).
			hint("to deploy it with this version", "remove that field from %s", p.file())
	}
	text := support.FailClosed(p.Limits)
	switch {
	case text != "" && p.outdated:
		first := p.Limits[0]
		return stop(fleet.ReasonRestricted, text).withEvidence("limits", len(p.Limits)).
			hint("if it is not meant to stop everything", "kubectl -n %s delete %s.%s %s", ns, strings.ToLower(first.Kind), fleet.Group, first.Name)
	case text != "":
		return ok("%s", text).withEvidence("limits", len(p.Limits))
	case p.problem != nil && linkOf(p.problem.Reason) == Policy:
		return stop(p.problem.Reason, p.problem.Message).withSince(view.ChangedAt(p.Bundle.Status.Conditions, fleet.ConditionReady))
	}
	var seen, unseen []string
	for _, kind := range support.Limiting() {
		if plural, _, known := fleet.Resource(kind); known && p.isForbidden(plural) {
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
func (p holdLinks) pauseLink() linkState {
	b, c, bd := p.Bundle, p.deploymentPlace.Cluster, p.deploymentPlace.Deployment
	agentWaits := bd != nil && bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || p.state == fleet.Modified
	brake := p.Brake
	brake.Since = nil
	switch repo := b.Labels[fleet.LabelRepoName]; {
	case p.Brake.On && (p.outdated || !p.observed()):
		j := stop(fleet.ReasonSuspended, brake.Text(p.Now)).hint("to go on", "fleet resume --all")
		if p.Brake.Since != nil {
			j = j.withSince(*p.Brake.Since)
		}
		return j.withEvidence("by", p.Brake.By)
	case p.reported != nil && p.outdated && strings.HasPrefix(p.reported.Message, globalPausePrefix):
		return stop(fleet.ReasonSuspended, p.reported.Message).hint("to go on", "fleet resume --all")
	case b.Spec.Paused && p.Repo != nil && p.Repo.Spec.Paused:
		return p.paused("repo "+repo, "repo", p.Repo)
	case b.Spec.Paused:
		return p.paused("the bundle", "bundle", b)
	case c != nil && c.Spec.Paused:
		return p.paused("the cluster", "cluster", c)
	case bd != nil && bd.Spec.Paused && agentWaits:
		return wait(ReasonPaused, "its deployment is paused; the manager has not let it go on yet")
	case bd != nil && bd.Spec.OffSchedule && agentWaits:
		return wait(fleet.ReasonDeferred, "outside of the windows of the cluster's schedule")
	case p.Brake.On:
		return ok("%s, and nothing waits for it", brake.Text(p.Now))
	case p.isForbidden(ConfigMaps) && p.outdated && p.reported == nil:
		return p.hiddenLink(ConfigMaps)
	case p.place == nil && p.isHidden():
		return p.hiddenLink(Clusters)
	case p.place == nil:
		return ok("the bundle is not paused; the cluster is not yours to see")
	}
	return ok("nothing is paused")
}

// paused is the judgement about a paused object. what names it in the text, word is its
// kind in commands.
func (p holdLinks) paused(what, word string, o metav1.Object) linkState {
	by, tail := view.PauseOf(o), ""
	j := stop(ReasonPaused, "").withSince(p.heldSince(by)).hint("to go on", "fleet resume %s/%s -n %s", word, o.GetName(), o.GetNamespace())
	if !p.outdated && p.state == fleet.Ready {
		j, tail = ok(""), "; nothing waits for it"
	}
	if tail != "" {
		j.paused = what + " is " + by.Text(time.Time{})
	}
	j.Text = what + " is " + by.Text(time.Time{}) + tail
	if by.Since != nil {
		j = j.withScreenText(what + " is " + by.Text(p.Now) + tail)
	}
	return j.pausedBy(by)
}

// pausedBy adds who has paused something, and why.
func (j linkState) pausedBy(by view.Pause) linkState {
	j = j.withEvidence("by", by.By).withEvidence("why", by.Reason)
	if by.Since != nil {
		j = j.withEvidence("pausedAt", *by.Since)
	}
	return j
}

// heldSince is since when a pause holds a version back: since that was staged, or
// since the pause, whichever came later.
func (p holdLinks) heldSince(by view.Pause) time.Time {
	var since time.Time
	if bd := p.deploymentPlace.Deployment; p.outdated && bd != nil && bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID {
		since = p.deploymentPlace.Written
	}
	if by.Since != nil && by.Since.After(since) {
		since = *by.Since
	}
	return since
}

// frozen names the limit of the rollout strategy that lets no running cluster through:
// 0 for all of them, or for the cluster's partition or an incomplete one before it.
func (p holdLinks) frozen(own int) string {
	s := p.Bundle.Spec.RolloutStrategy
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
	parts := p.Bundle.Status.PartitionStatus
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
func (p holdLinks) rolloutLink() linkState {
	b, bd := p.Bundle, p.deploymentPlace.Deployment
	if c := p.problem; c != nil && linkOf(c.Reason) == Rollout {
		return stop(c.Reason, c.Message).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct rolloutStrategy in %s", p.file())
	}
	if err := p.partitionFault(); err != nil {
		return stop(reasonOf(err), err.Error()).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct that selector of rolloutStrategy.partitions in %s", p.file())
	}
	if p.place == nil && p.isHidden() {
		return p.hiddenLink(Clusters)
	}
	own, manual := p.partition()
	if manual && own < 0 && p.place != nil {
		return p.leftOut()
	}
	if !p.outdated || p.Manager.IsGone() {
		return p.released(own) // without a manager no cluster is let through; the delivery step says so
	}
	if j := p.unreplaced(); j.stops() {
		return j
	}
	waits := func(text string) linkState {
		j := wait(fleet.ReasonDeferred, text)
		j = p.stopIfLimitZero(j, own)
		j = j.hint("to see what holds it", "fleet get deployments -n %s --bundle %s --not-ready", b.Namespace, b.Name)
		who, since := p.waits()
		if bd != nil && bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID && bd.Spec.StagedDeploymentID == cmp.Or(p.wanted, bd.Spec.StagedDeploymentID) {
			since = p.deploymentPlace.Written
		}
		if who != "" {
			j = j.detail(who)
		}
		return p.addPartitionProgress(j.withSince(since), own)
	}
	switch {
	case p.step != nil && !p.step.Move && p.step.Reason != "":
		return waits(p.step.Reason)
	case p.step != nil:
		return p.released(own)
	case p.reported != nil && holdReason(p.reported) != "":
		return waits(holdReason(p.reported))
	case p.reported != nil && p.reported.State == fleet.ErrApplied && bd == nil:
		return p.released(own)
	case bd != nil:
		return waits(p.otherClustersReason(own))
	}
	return p.released(own)
}

// unreplaced stops where the newest version makes another release in the place of the one
// that the cluster has, and that waits for a person: the manager lists it on the GitRepo, or
// on a Bundle without one. Before that, no limit of the rollout matters.
func (p holdLinks) unreplaced() linkState {
	b, bd := p.Bundle, p.deploymentPlace.Deployment
	if bd == nil {
		return linkState{}
	}
	o, list, kind, item := metav1.Object(b), b.Status.Conditions, "bundle", "deployment "+p.deploymentPlace.Key.String()
	if p.Repo != nil {
		o, list, kind, item = p.Repo, p.Repo.Status.Conditions, "repo", "bundle "+b.Name
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
func (p holdLinks) stopIfLimitZero(j linkState, own int) linkState {
	named := rollout.ZeroLimit(j.Text)
	limit := cmp.Or(named, p.frozen(own))
	if limit == "" {
		return j
	}
	comes := "no cluster that runs is updated"
	if named != "" && p.isNew() {
		comes = "no cluster gets the bundle that does not have it"
	}
	j.Verdict = Stop
	return j.detail(limit+" is 0: "+comes).hint("to let it through", "raise %s in %s", limit, p.file())
}

// isNew reports whether the cluster does not have the bundle, in any version: where the
// deployment may not be read, whether the Bundle's status says so.
func (p *bundleOnCluster) isNew() bool {
	if p.deploymentPlace.Deployment == nil && p.isForbidden(Deployments) {
		return p.reported != nil && p.reported.State == fleet.Pending
	}
	return p.deploymentPlace.Deployment == nil
}

// leftOut is the judgement about a cluster that is in no partition.
func (p holdLinks) leftOut() linkState {
	const text = "in no partition of the rollout strategy"
	if !p.outdated {
		return ok("%s: it keeps this version", text)
	}
	return stop(ReasonNoPartition, text).detail("with partitions of its own a rollout leaves out all clusters that none of them selects").
		withEvidence("partitions", len(p.Bundle.Spec.RolloutStrategy.Partitions)).
		hint("to let it take part", "add a partition that selects %s to rolloutStrategy.partitions in %s", p.deploymentPlace.Key.Name, p.file())
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
func (p holdLinks) partition() (own int, manual bool) {
	s := p.Bundle.Spec.RolloutStrategy
	if s == nil || len(s.Partitions) == 0 {
		if len(p.Bundle.Status.PartitionStatus) == 1 {
			return 0, false
		}
		return p.partitionOfCluster(), false
	}
	if p.place == nil {
		return -1, true
	}
	for i := range s.Partitions {
		filter, err := filterOf(&s.Partitions[i], i)
		if err == nil && filter.Selects(&p.place.Cluster) {
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
func (p holdLinks) partitionFault() error {
	if s := p.Bundle.Spec.RolloutStrategy; s != nil {
		for i := range s.Partitions {
			if _, err := filterOf(&s.Partitions[i], i); err != nil {
				return err
			}
		}
	}
	return nil
}

// partitionOfCluster is the automatic partition whose status names the cluster.
func (p holdLinks) partitionOfCluster() int {
	for i := range p.Bundle.Status.PartitionStatus {
		if view.SummaryEntry(&p.Bundle.Status.PartitionStatus[i].Summary, p.deploymentPlace.Key) != nil {
			return i
		}
	}
	return -1
}

// otherClustersReason is why other clusters are held back, those of the same partition first;
// all of a partition wait for the same.
func (p holdLinks) otherClustersReason(own int) string {
	parts := p.Bundle.Status.PartitionStatus
	var lists []*fleet.BundleSummary
	if own >= 0 && own < len(parts) {
		lists = append(lists, &parts[own].Summary)
	}
	lists = append(lists, &p.Bundle.Status.Summary)
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
	st := p.Bundle.Status
	return fmt.Sprintf("waits for its turn in the rollout: %d unavailable, %d allowed", st.Unavailable, st.MaxUnavailable)
}

// released is a rollout that lets the cluster through.
func (p holdLinks) released(own int) linkState {
	st := p.Bundle.Status
	parts := st.PartitionStatus
	if p.offline && p.outdated {
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
func (p holdLinks) addPartitionProgress(j linkState, own int) linkState {
	parts := p.Bundle.Status.PartitionStatus
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
	return j.withEvidence("unavailable", p.Bundle.Status.Unavailable).withEvidence("maxUnavailable", p.Bundle.Status.MaxUnavailable)
}
