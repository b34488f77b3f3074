package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A Progress is the state of one bundle on one cluster.
type Progress string

// How far a pair is.
const (
	Waiting  Progress = "waiting"
	Reached  Progress = "ready"
	Deferred Progress = "deferred" // its cluster is away
	Failed   Progress = "failed"   // not without a change
)

// A Pair is one bundle on one cluster.
type Pair struct {
	Bundle   Key
	Cluster  Key
	Progress Progress
	// Written reports whether the deployment was written for the commit.
	Written bool
	State   fleet.BundleState
	Reason  string // one CamelCase word, where it failed
	Message string // why it is not Ready
	Commit  string // that runs there; empty: another than the wanted, or none
	Wanted  string
	// LastSeen is when the cluster checked in last, for one that is away.
	LastSeen time.Time

	reported       bool   // Progress depends on the agent's report alone
	summaryMessage string // with which message
	generation     int64  // of the Bundle
}

// evaluateDeployment judges one deployment.
func (e *evaluator) evaluateDeployment(b *fleet.Bundle, bd *fleet.BundleDeployment) {
	p := Pair{
		Bundle: keyOf(b), Cluster: ClusterOf(bd), Progress: Waiting,
		State: DeploymentState(bd), Message: DeploymentMessage(bd),
		Commit: DeploymentCommit(bd), Wanted: b.Labels[fleet.LabelCommit],
		summaryMessage: summary.Message(bd), generation: b.Generation,
	}
	observed := b.Status.ObservedGeneration >= b.Generation
	p.Written = observed && bd.Labels[fleet.LabelCommit] == p.Wanted
	if r := heldBack(b, p.Cluster); r != nil && p.Written && p.State == fleet.Ready {
		p.State, p.Message, p.Commit = r.State, resourceMessage(r), ""
	}
	c := e.clusters[p.Cluster]
	away := c != nil && ClusterState(c) == fleet.Offline
	reason, stuck := permanent(bd)
	switch {
	case p.Written && p.State == fleet.Ready && (!away || e.goal.Commit != ""):
		p.Progress, p.reported = Reached, true
	case away && observed && !e.goal.All:
		p.Progress, p.LastSeen = Deferred, c.Status.Agent.LastSeen.Time
	case p.Written && stuck && bd.Spec.DeploymentID == bd.Spec.StagedDeploymentID:
		p.Progress, p.Reason, p.reported = Failed, reason, true
	case p.Written && bd.Spec.DeploymentID != "" && p.State != fleet.WaitApplied && p.State != fleet.OutOfSync:
	case isDecided(b, bd, p) && paused(b, bd, c):
		p.Progress, p.Reason, p.Message = Failed, fleet.ReasonSuspended, e.pausedBy(b, c)
	}
	if r := uncomputableEntry(b, p.Cluster); r != nil && !p.Written && p.Progress == Waiting && !p.repeats(r) {
		p.Progress, p.State, p.Reason, p.Message = Failed, r.State, string(r.State), resourceMessage(r)
	}
	if r, text := frozen(b, p.Cluster); r != nil && (p.Progress == Reached || p.Progress == Waiting && mayBeHeld(p.State)) {
		p.Progress, p.State, p.Reason, p.Message, p.reported = Failed, r.State, string(r.State), text, false
	}
	if p.Message == "" && p.Progress != Reached {
		p.Message = waitsFor(b, p)
	}
	e.verdict.Pairs = append(e.verdict.Pairs, p)
}

// evaluateAbsent judges a cluster that should get a Bundle and has no deployment.
func (e *evaluator) evaluateAbsent(b *fleet.Bundle, cluster Key, r *fleet.NonReadyResource) {
	p := Pair{
		Bundle: keyOf(b), Cluster: cluster, Progress: Waiting,
		State: r.State, Message: resourceMessage(r), Wanted: b.Labels[fleet.LabelCommit],
	}
	c := e.clusters[cluster]
	held, text := frozen(b, cluster)
	switch {
	case r.State == fleet.ErrApplied && b.Status.ObservedGeneration >= b.Generation:
		p.Progress, p.Reason = Failed, string(r.State)
	case c != nil && ClusterState(c) == fleet.Offline && !e.goal.All:
		p.Progress, p.LastSeen = Deferred, c.Status.Agent.LastSeen.Time
	case held != nil:
		p.Progress, p.Reason, p.Message = Failed, string(r.State), text
	case !isBehindSpec(b) && paused(b, nil, c):
		p.Progress, p.Reason, p.Message = Failed, fleet.ReasonSuspended, e.pausedBy(b, c)
	}
	if p.Message == "" {
		p.Message = waitsFor(b, p)
	}
	e.verdict.Pairs = append(e.verdict.Pairs, p)
}

// mayBeHeld reports whether a deployment in a state may be one that the manager has not let
// go on: it is as it was, or waits for the manager.
func mayBeHeld(state fleet.BundleState) bool {
	return state == fleet.Ready || state == fleet.OutOfSync || state == fleet.Pending
}

// frozen returns the entry of a Bundle for a cluster that its rollout strategy never lets
// through, and why, if its status is of this Bundle. If there are many clusters, the
// summary names ten, and the partitions name others.
func frozen(b *fleet.Bundle, cluster Key) (*fleet.NonReadyResource, string) {
	if isBehindSpec(b) {
		return nil, ""
	}
	for _, list := range summariesOf(b) {
		if r := SummaryEntry(list, cluster); r != nil {
			if text := zeroLimitMessage(b, r.Message); text != "" {
				return r, text
			}
		}
	}
	return nil, ""
}

// repeats reports whether an entry of a summary repeats what the deployment's agent says.
func (p Pair) repeats(r *fleet.NonReadyResource) bool {
	own := summary.NonReadyResource(r.Name, &summary.Deployment{State: p.State, Message: p.summaryMessage})
	return r.State == own.State && r.Message == own.Message
}

// uncomputableEntry returns the entry of a Bundle's summary for a cluster for which no deployment
// could be worked out, or whose agent reports that of an older version. An older version
// that waits for something on the cluster does not count.
func uncomputableEntry(b *fleet.Bundle, cluster Key) *fleet.NonReadyResource {
	if b.Status.ObservedGeneration < b.Generation {
		return nil
	}
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if r.State == fleet.ErrApplied && parseKey(r.Name) == cluster && !dependency.IsUnreadyMessage(r.Message) && !isMissingObject(r.Message) {
			return r
		}
	}
	return nil
}

// heldBack returns the entry of a Bundle's summary for a cluster whose deployment is not to be,
// or cannot be, brought to the newest version now. The deployment itself looks as if it were
// Ready.
func heldBack(b *fleet.Bundle, cluster Key) *fleet.NonReadyResource {
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if r.State == fleet.OutOfSync && parseKey(r.Name) == cluster {
			return r
		}
	}
	return nil
}

// permanent reports whether the agent has given a deployment up until something
// changes, and in one word why.
func permanent(bd *fleet.BundleDeployment) (string, bool) {
	list := bd.Status.Conditions
	if c := condition.Find(list, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionTrue && isCurrent(c, bd.Generation) {
		return c.Reason, true
	}
	c := condition.Find(list, fleet.ConditionInstalled)
	if c != nil && c.Status == corev1.ConditionFalse && isCurrent(c, bd.Generation) &&
		bd.Spec.DeploymentID != "" && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID {
		return c.Reason, true
	}
	return "", false
}

// isDecided reports whether the manager has decided what a deployment is to hold of this
// Bundle. Of a change that deploys nothing, the manager writes only the new commit to the
// deployment. So a deployment that is up to date may be about to get that, unless the
// Bundle's summary says that something is held back.
func isDecided(b *fleet.Bundle, bd *fleet.BundleDeployment, p Pair) bool {
	return !isBehindSpec(b) && (p.Written || bd.Spec.DeploymentID == "" || p.State == fleet.OutOfSync || b.Status.Summary.OutOfSync > 0)
}

func paused(b *fleet.Bundle, bd *fleet.BundleDeployment, c *fleet.Cluster) bool {
	return b.Spec.Paused || bd != nil && bd.Spec.Paused || c != nil && c.Spec.Paused
}

// isCurrent reports whether a condition speaks of a generation, or does not say.
func isCurrent(c *fleet.Condition, generation int64) bool {
	return c.ObservedGeneration == 0 || c.ObservedGeneration >= generation
}

// pausedBy says what is paused, of which the deployment is a part.
func (e *evaluator) pausedBy(b *fleet.Bundle, c *fleet.Cluster) string {
	repo := e.repos[repoOf(b)]
	switch {
	case repo != nil && repo.Spec.Paused:
		return fmt.Sprintf("repo %s is paused", repo.Name)
	case b.Spec.Paused:
		return fmt.Sprintf("bundle %s is paused", b.Name)
	case c != nil && c.Spec.Paused:
		return fmt.Sprintf("cluster %s is paused", c.Name)
	}
	return "paused"
}

// notApplied explains WaitApplied.
const notApplied = "the agent has not applied it yet"

// notReached says of a deployment that the rollout has not let through, for no named reason.
const notReached = "the rollout has not come to it yet"

// waitsFor says what a deployment waits for if it has no message of its own: the
// Bundle's message about the cluster, or about all that are held back, or the
// meaning of its state.
func waitsFor(b *fleet.Bundle, p Pair) string {
	if c := Awaited(b); c != nil {
		return c.Message
	}
	if isBehindSpec(b) {
		return notWorkedOn
	}
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if text := resourceMessage(r); text != "" && parseKey(r.Name) == p.Cluster {
			return text
		}
	}
	held := p.State == fleet.OutOfSync || p.State == fleet.Pending || !p.Written
	if c := condition.Find(b.Status.Conditions, fleet.ConditionWaiting); held && c != nil && c.Status == corev1.ConditionTrue && c.Message != "" {
		return c.Message
	}
	switch {
	case p.State == fleet.Ready && p.Written:
		return "the cluster is Offline: Ready is what its agent reported last"
	case p.Progress == Deferred:
		return "the cluster is Offline"
	case held && Untargeted(b.Status.Conditions):
		return "no target matches the cluster any more, and the deployment is removed from it"
	case held:
		return notReached
	case p.State == fleet.WaitApplied:
		return notApplied
	}
	return ""
}
