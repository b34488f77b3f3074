package view

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	work "github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// States of repositories that need a person. The API has no word for them: there
// a GitRepo is GitUpdating, and its conditions say the rest.
const (
	// Unreadable: the repository, or a part of it, cannot be read.
	Unreadable fleet.BundleState = "Unreadable"
	// Held: something does not let what was read become a change.
	Held fleet.BundleState = "Held"
)

// ClusterState returns the state of a Cluster: the worst of its bundles, unless its agent
// is away.
func ClusterState(c *fleet.Cluster) fleet.BundleState {
	return displayed(c.Status.Display.State, c.Status.Conditions, fleet.WaitCheckIn)
}

// BundleState returns the worst state of a Bundle on any cluster. A Bundle on which no
// manager has worked yet is Pending; one that is kept from being deployed at all is
// NotReady. One that was Ready and was changed since a manager worked on it is OutOfSync,
// because Ready is about its earlier version. One whose deletion waits for a user is Held.
func BundleState(b *fleet.Bundle) fleet.BundleState {
	if HeldDeletion(b) != nil {
		return Held
	}
	state := displayed(b.Status.Display.State, b.Status.Conditions, fleet.Pending)
	if state == fleet.Ready && isBehindSpec(b) {
		return fleet.OutOfSync
	}
	return state
}

// notWorkedOn is the message of what is late.
const notWorkedOn = "the manager has not worked on it yet"

// isBehindSpec reports whether a Bundle was changed since the manager worked on it.
func isBehindSpec(b *fleet.Bundle) bool { return b.Status.ObservedGeneration < b.Generation }

// RepoState returns the worst state of what a GitRepo deploys. One that cannot be read is
// Unreadable; one whose changes are held back is Held, unless it is Ready or its
// deployments have a worse state; one whose deletion, or a removal of which, waits for a
// user is Held whatever their state; one that the manager has not worked on yet is
// GitUpdating.
func RepoState(r *fleet.GitRepo) fleet.BundleState {
	if HeldRepo(r) != nil {
		return Held
	}
	state := displayed(r.Status.Display.State, r.Status.Conditions, fleet.GitUpdating)
	trouble, c := RepoTrouble(r)
	if c != nil && c.Type == fleet.ConditionDeletionHeld {
		if approved(r.Annotations, c) {
			return state
		}
		return Held
	}
	word := fleet.BundleState(r.Status.Display.State)
	if trouble == Unreadable || trouble == Held && state != fleet.Ready && (word == "" || word == fleet.GitUpdating) {
		return trouble
	}
	return state
}

// GroupState returns the worst state of the clusters of a ClusterGroup.
func GroupState(g *fleet.ClusterGroup) fleet.BundleState {
	return displayed(g.Status.Display.State, g.Status.Conditions, fleet.Pending)
}

// displayed returns the state of a display field. If the field is empty, all
// deployments are ready, and the condition Ready decides.
func displayed(word string, list []fleet.Condition, unknown fleet.BundleState) fleet.BundleState {
	ready := condition.Find(list, fleet.ConditionReady)
	switch {
	case word != "":
		return fleet.BundleState(word)
	case ready == nil:
		return unknown
	case ready.Status == corev1.ConditionTrue:
		return fleet.Ready
	}
	return fleet.NotReady
}

// DeploymentState returns the state of one deployment, from its ids and what its agent
// reports; the display field may be outdated for an Offline cluster.
func DeploymentState(bd *fleet.BundleDeployment) fleet.BundleState {
	return summary.State(bd, "")
}

// StateRank orders states from best to worst: Ready is 1, the states of deployments
// follow in the API's order, then clusters without an agent, then repositories
// that need a person.
func StateRank(s fleet.BundleState) int {
	switch s {
	case fleet.GitUpdating:
		return 2
	case fleet.WaitCheckIn:
		return 8
	case fleet.Offline:
		return 9
	case Unreadable:
		return 10
	case Held:
		return 11
	}
	return s.Rank()
}

// ChangedAt returns when a condition last changed its status; zero where there is none or it
// does not say.
func ChangedAt(list []fleet.Condition, kind string) time.Time {
	c := condition.Find(list, kind)
	if c == nil {
		return time.Time{}
	}
	return changedAt(c)
}

func changedAt(c *fleet.Condition) time.Time {
	for _, text := range []string{c.LastTransitionTime, c.LastUpdateTime} {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// DeploymentSince returns since when a deployment is in its state.
func DeploymentSince(bd *fleet.BundleDeployment) time.Time {
	kind := fleet.ConditionReady
	switch DeploymentState(bd) {
	case fleet.ErrApplied:
		kind = fleet.ConditionDeployed
	case fleet.WaitApplied, fleet.OutOfSync:
		return time.Time{} // the agent has not spoken since
	}
	return ChangedAt(bd.Status.Conditions, kind)
}

// DeploymentMessage says why a deployment is not Ready. It is empty where it
// is.
func DeploymentMessage(bd *fleet.BundleDeployment) string {
	if DeploymentState(bd) == fleet.Ready {
		return ""
	}
	if text := summary.Message(bd); text != "" {
		return dependency.PlainMessage(text)
	}
	if text := firstObject(bd.Status.ModifiedStatus, bd.Status.NonReadyStatus); text != "" {
		return text
	}
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionReady); c != nil && c.Status == corev1.ConditionFalse {
		return summary.Readable(c.Message)
	}
	return ""
}

// AttemptFailed reports whether the last attempt to apply a deployment failed.
func AttemptFailed(bd *fleet.BundleDeployment) bool {
	return condition.IsFalse(bd.Status.Conditions, fleet.ConditionDeployed) ||
		condition.IsFalse(bd.Status.Conditions, fleet.ConditionInstalled)
}

// DeploymentCommit returns the commit that runs: the one a deployment was written for, once
// that is applied. It is empty while something else runs, or nothing does.
func DeploymentCommit(bd *fleet.BundleDeployment) string {
	if bd.Status.AppliedDeploymentID == "" || bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID ||
		bd.Spec.DeploymentID != bd.Spec.StagedDeploymentID ||
		condition.IsFalse(bd.Status.Conditions, fleet.ConditionInstalled) {
		return ""
	}
	return bd.Labels[fleet.LabelCommit]
}

// BundleMessage says why a Bundle is not Ready, with the first cluster it is
// not Ready on. It is empty where it is.
func BundleMessage(b *fleet.Bundle) string {
	state := BundleState(b)
	if state == fleet.Ready {
		return ""
	}
	if c := HeldDeletion(b); c != nil {
		return c.Message
	}
	if text := Approval(b, b.Status.Conditions); text != "" && b.DeletionTimestamp != nil {
		return text
	}
	if c := readyProblem(b.Status.Conditions); c != nil {
		return c.Message
	}
	for i := range b.Status.Summary.NonReadyResources {
		r := &b.Status.Summary.NonReadyResources[i]
		if r.State == state {
			text := resourceMessage(r)
			if state == fleet.WaitApplied {
				text = cmp.Or(text, notApplied)
			}
			return strings.TrimSuffix(parseKey(r.Name).Name+": "+text, ": ")
		}
	}
	if isBehindSpec(b) {
		return notWorkedOn
	}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionReady); c != nil && c.Status != corev1.ConditionTrue {
		return summary.Readable(c.Message)
	}
	return ""
}

// RepoMessage says what keeps a GitRepo from being Ready: first what keeps it
// from being read.
func RepoMessage(r *fleet.GitRepo) string {
	if _, c := RepoTrouble(r); c != nil {
		if text := Approval(r, r.Status.Conditions); c.Type == fleet.ConditionDeletionHeld && text != "" {
			return text
		}
		return c.Message
	}
	if RepoState(r) == fleet.Ready {
		return ""
	}
	if r.Status.Display.Message != "" {
		return dependency.PlainMessage(r.Status.Display.Message)
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionReady); c != nil && c.Status != corev1.ConditionTrue {
		return summary.Readable(c.Message)
	}
	return ""
}

// more is how a message ends that stands for several.
var more = regexp.MustCompile(` \(and (\d+) more\)$`)

// SplitOthers returns a message without its end " (and N more)", and N; 0 for a message that
// stands for itself.
func SplitOthers(message string) (first string, others int) {
	m := more.FindStringSubmatch(message)
	if m == nil {
		return message, 0
	}
	others, _ = strconv.Atoi(m[1])
	return strings.TrimSuffix(message, m[0]), others
}

// RepoWarnings returns what a GitRepo says of its files, fields and clusters where nothing
// is wrong with them, as "1 warning: a/cm.yaml:3: ..."; empty where it says nothing.
func RepoWarnings(r *fleet.GitRepo) string { return repoWarnings(r, unrendered(r.Status.Conditions)) }

// repoWarnings is RepoWarnings with what is said of templates that are not rendered.
func repoWarnings(r *fleet.GitRepo, unrendered string) string {
	first, n := "", 0
	if c := condition.Find(r.Status.Conditions, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		first, n = SplitOthers(c.Message)
		n++
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason == fleet.ReasonNotImplemented {
		first, n = cmp.Or(first, c.Message), n+1
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionDeletionBudget); c != nil && c.Status == corev1.ConditionFalse {
		first, n = cmp.Or(first, c.Message), n+1
	}
	if unrendered != "" {
		text, others := SplitOthers(unrendered)
		first, n = cmp.Or(first, text), n+1+others
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 warning: " + first
	}
	return countText(n) + " warnings: " + first
}

// BundleWarnings returns what a Bundle says of its clusters where nothing is wrong with it,
// as "1 warning: ..."; empty where it says nothing.
func BundleWarnings(b *fleet.Bundle) string {
	if text := unrendered(b.Status.Conditions); text != "" {
		return "1 warning: " + text
	}
	return ""
}

// unrendered returns the message in the conditions of a Bundle or a GitRepo about
// templates of values that are not rendered; empty if there is none.
func unrendered(list []fleet.Condition) string {
	if c := condition.Find(list, fleet.ConditionValuesRendered); c != nil && c.Status == corev1.ConditionFalse {
		return c.Message
	}
	return ""
}

// unrenderedOf joins those messages of the Bundles of a GitRepo, as the GitRepo does
// later.
func unrenderedOf(bundles []*fleet.Bundle) string {
	texts := map[string]string{}
	for _, b := range bundles {
		if text := unrendered(b.Status.Conditions); text != "" {
			texts[b.Name] = text
		}
	}
	return summary.OfBundles(texts)
}

// ClusterMessage says what the Ready condition of a Cluster says where it does
// not hold.
func ClusterMessage(c *fleet.Cluster) string {
	switch ClusterState(c) {
	case fleet.WaitCheckIn:
		return neverSeen
	case fleet.Offline:
		return "last report: " + strings.Replace(cmp.Or(c.Status.Display.ReadyBundles, "0/0"), "/", " of ", 1) + " bundles Ready"
	}
	return notReady(c.Status.Conditions)
}

// neverSeen is the message of a cluster whose agent did not come yet.
const neverSeen = "the agent has not checked in yet"

// GroupMessage is ClusterMessage for a ClusterGroup.
func GroupMessage(g *fleet.ClusterGroup) string { return notReady(g.Status.Conditions) }

func notReady(list []fleet.Condition) string {
	if r := condition.Find(list, fleet.ConditionReady); r != nil && r.Status != corev1.ConditionTrue {
		return summary.Readable(r.Message)
	}
	return ""
}

// reasonChart is the reason of a GitRepo with a chart that cannot be had. The manager tries
// again where that may pass by itself; the host may be a wrong one nevertheless.
var reasonChart = finding.Finding{Rule: finding.RuleChart}.Reason()

// RepoTrouble returns why a repository needs a person, as Unreadable or Held and the
// condition that says so; nil where it needs none. A field that this version does not act
// on holds nothing back.
func RepoTrouble(r *fleet.GitRepo) (fleet.BundleState, *fleet.Condition) {
	list := r.Status.Conditions
	if state, c := sourceTrouble(list, fleet.ConditionGitPolling); c != nil {
		return state, c
	}
	if c := condition.Find(list, fleet.ConditionReconciling); c != nil && c.Status == corev1.ConditionTrue && c.Reason == reasonChart {
		return Unreadable, c
	}
	if c := condition.Find(list, fleet.ConditionDeletionHeld); c != nil && c.Status == corev1.ConditionTrue {
		return Held, c
	}
	return "", nil
}

// sourceTrouble returns why the source of Bundles needs a person; nil where it needs none.
// polling is the condition that says whether the source answers.
func sourceTrouble(list []fleet.Condition, polling string) (fleet.BundleState, *fleet.Condition) {
	if c := condition.Find(list, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason != fleet.ReasonNotImplemented {
		switch c.Reason {
		case fleet.EventPolicyViolation, fleet.ReasonSuspended:
			return Held, c
		}
		return Unreadable, c
	}
	if c := condition.Find(list, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionTrue {
		return Unreadable, c
	}
	if c := condition.Find(list, polling); c != nil && c.Status == corev1.ConditionFalse {
		return Unreadable, c
	}
	return "", nil
}

// HeldDeletion returns why a Bundle that is being deleted waits for a person; nil where it
// does not, or a person has approved it.
func HeldDeletion(b *fleet.Bundle) *fleet.Condition {
	c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld)
	if b.DeletionTimestamp == nil || c == nil || c.Status != corev1.ConditionTrue || approved(b.Annotations, c) {
		return nil
	}
	return c
}

// HeldRepo returns why a GitRepo that is being deleted waits for a person; nil where it
// does not, or a person has approved it.
func HeldRepo(r *fleet.GitRepo) *fleet.Condition {
	c := condition.Find(r.Status.Conditions, fleet.ConditionDeletionHeld)
	if r.DeletionTimestamp == nil || c == nil || c.Status != corev1.ConditionTrue || c.Reason != fleet.ReasonProtected || approved(r.Annotations, c) {
		return nil
	}
	return c
}

// ReadyProblem returns why a Bundle is kept from being Ready anywhere, whatever its deployments
// say: its condition Ready, or nil where there is no such reason.
func ReadyProblem(b *fleet.Bundle) *fleet.Condition { return readyProblem(b.Status.Conditions) }

// Awaited returns what the manager waits for before it works out the present version of a
// Bundle: its condition Ready, or nil where that does not say so.
func Awaited(b *fleet.Bundle) *fleet.Condition {
	if c := readyProblem(b.Status.Conditions); c != nil && isBehindSpec(b) && work.Awaits(c.Reason) {
		return c
	}
	return nil
}

// readyProblem is the condition Ready where it is False for a reason of the object
// itself, and not because of the state of a deployment.
func readyProblem(list []fleet.Condition) *fleet.Condition {
	c := condition.Find(list, fleet.ConditionReady)
	if c == nil || c.Status != corev1.ConditionFalse || fleet.BundleState(c.Reason).Rank() > 0 {
		return nil
	}
	return c
}

// resourceMessage is the message of an entry, or else its first object.
func resourceMessage(r *fleet.NonReadyResource) string {
	if r.Message != "" {
		return dependency.PlainMessage(r.Message)
	}
	return firstObject(r.ModifiedStatus, r.NonReadyStatus)
}

func firstObject(modified []fleet.ModifiedStatus, unready []fleet.NonReadyStatus) string {
	switch {
	case len(modified) > 0:
		return modified[0].String()
	case len(unready) > 0:
		return summary.Readable(unready[0].String())
	}
	return ""
}

func countText(n int) string { return strconv.Itoa(n) }
