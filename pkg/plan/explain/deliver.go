package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Reasons with which agents wait (pkg/agent/deploy), by the link that they are
// about: for other bundles, and for the manager, which itself may wait for
// content. All others are about the release.
const (
	reasonValuesPending = "ValuesPending"
	reasonManagerAway   = "ManagerAway"
)

// isCurrent reports whether a condition speaks of this version of the deployment, or
// does not say.
func (p *bundleOnCluster) isCurrent(c *fleet.Condition) bool {
	return c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= p.deploymentPlace.Deployment.Generation)
}

// waiting is the condition with which the agent says what it waits for, or nil.
func (p *bundleOnCluster) waiting() *fleet.Condition {
	if p.deploymentPlace.Deployment == nil {
		return nil
	}
	c := condition.Find(p.deploymentPlace.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionUnknown || c.Reason == fleet.ReasonProgressing || !p.isCurrent(c) {
		return nil
	}
	return c
}

// dependencyCondition is the condition with which the agent says for which other bundles it waits,
// that one is not there, or that they wait for each other; nil where it says none of this.
// Where the deployment may not be read, it has what the Bundle's status repeats of it.
func (p *bundleOnCluster) dependencyCondition() *fleet.Condition {
	if p.reportedDependency() {
		c := fleet.Condition{Type: fleet.ConditionDeployed, Reason: dependency.ReasonNotReady, Message: p.reported.Message}
		if dependency.IsCyclicMessage(c.Message) {
			c.Reason = dependency.ReasonCycle
		}
		return &c
	}
	if c := p.waiting(); c != nil && c.Reason == dependency.ReasonNotReady {
		return c
	}
	c := p.failedCondition()
	if c != nil && (dependency.IsMissingMessage(c.Message) || dependency.IsUnreadyMessage(c.Message) || c.Reason == dependency.ReasonCycle) {
		return c
	}
	return nil
}

// reportedDependency reports whether the deployment may not be read, and the Bundle's status says
// that its agent waits for other bundles.
func (p *bundleOnCluster) reportedDependency() bool {
	if p.deploymentPlace.Deployment != nil || !p.isForbidden(Deployments) || p.reported == nil {
		return false
	}
	m := p.reported.Message
	return dependency.IsMissingMessage(m) || dependency.IsUnreadyMessage(m) || dependency.IsCyclicMessage(m)
}

// missingObjectCondition is the condition with which the agent says what is missing on the cluster, for
// a user to make; nil where it does not say so.
func (p *bundleOnCluster) missingObjectCondition() *fleet.Condition {
	if c := p.failedCondition(); c != nil && (c.Reason == release.ReasonNoNamespace || c.Reason == release.ReasonNoValues) {
		return c
	}
	return nil
}

// failedCondition is the condition Deployed that is False for this version, or nil.
func (p *bundleOnCluster) failedCondition() *fleet.Condition {
	if p.deploymentPlace.Deployment == nil {
		return nil
	}
	c := condition.Find(p.deploymentPlace.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionFalse || !p.isCurrent(c) {
		return nil
	}
	return c
}

func isDelivery(reason string) bool {
	switch reason {
	case deployment.ReasonNoContent, reasonValuesPending, reasonManagerAway, content.ReasonDamaged, fleet.ReasonManagerBehind:
		return true
	}
	return false
}

// deliveryLinks judges the way to the agent: what the deployment waits for, and its
// delivery.
type deliveryLinks struct{ *bundleOnCluster }

// dependsLink looks at other bundles that have to be Ready there first.
func (p deliveryLinks) dependsLink() linkState {
	refs := p.Bundle.Spec.DependsOn
	if p.deploymentPlace.Deployment != nil && !p.outdated {
		refs = p.deploymentPlace.Deployment.Spec.DependsOn
	}
	var names, quoted []string
	for _, r := range refs {
		name := cmp.Or(r.Name, "bundles with "+metav1.FormatLabelSelector(r.Selector))
		names, quoted = append(names, name), append(quoted, r.Name)
	}
	if c := p.dependencyCondition(); c != nil {
		text := dependency.PlainMessage(c.Message)
		j := wait(c.Reason, text).withEvidence("dependsOn", names)
		if p.deploymentPlace.Deployment != nil {
			j = j.withSince(view.ChangedAt(p.deploymentPlace.Deployment.Status.Conditions, c.Type))
		}
		if c.Reason == dependency.ReasonCycle {
			j.Verdict = Stop
			return j.hint("to end it", "take one of these bundles out of dependsOn of another, in %s or in that of the other bundle", p.file())
		}
		if dependency.IsMissingMessage(c.Message) {
			return j.hint("to put it right", "correct dependsOn in %s, or add a target for %s to the bundle that it names", p.file(), p.deploymentPlace.Key.Name)
		}
		for _, name := range quoted {
			if name != "" && strings.Contains(text, name) {
				return j.hint("to see what that one waits for", "fleet explain %s %s -n %s", name, p.deploymentPlace.Key.Name, p.deploymentPlace.Key.Namespace)
			}
		}
		return j.hint("to see all that is there", "fleet get deployments -n %s --cluster %s", p.deploymentPlace.Key.Namespace, p.deploymentPlace.Key.Name)
	}
	if len(names) == 0 {
		return ok("on nothing")
	}
	if p.isHidden() {
		return p.hiddenLink(Deployments).withEvidence("dependsOn", names)
	}
	return ok("on %s", strings.Join(names, ", ")).withEvidence("dependsOn", names)
}

// deliveredLink looks at whether the agent has what it needs.
func (p deliveryLinks) deliveredLink() linkState {
	bd, c := p.deploymentPlace.Deployment, p.deploymentPlace.Cluster
	if bd == nil && p.isForbidden(Deployments) {
		return p.hiddenDeployment(Delivered)
	}
	if c != nil && (bd == nil || p.outdated) {
		if j, stuck := p.unwritableCluster(); stuck {
			return j
		}
	}
	switch {
	case p.reportedOff():
		return stop(string(p.reported.State), p.reported.Message).hint("to see what happens", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	case bd == nil && p.Manager.IsGone(), bd != nil && p.outdated && p.Manager.IsGone():
		return p.managerGone()
	case bd == nil:
		return wait(ReasonNotWritten, "not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	case bd.Annotations[fleet.AnnotationWithdrawn] != "":
		return wait(ReasonLeaving, "it was withdrawn, and is wanted again").hint("to see whether the manager runs", "fleet status")
	case p.outdated:
		return wait(ReasonNotWritten, "the newest version is not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	}
	current := bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	if j, away := p.agentAway(); away && !current {
		return j
	}
	if w := p.waiting(); w != nil && isDelivery(w.Reason) {
		return wait(w.Reason, w.Message).withSince(view.ChangedAt(bd.Status.Conditions, w.Type)).
			hint("to see it from the other side, on the site", "fleet-agent status")
	}
	if deployed := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); !current &&
		(deployed == nil || !p.isCurrent(deployed) || deployed.Status == corev1.ConditionTrue || deployed.Reason == fleet.ReasonProgressing) {
		return p.unreported()
	}
	text := cmp.Or(view.ShortCommit(bd.Labels[fleet.LabelCommit]), "the newest version") + " to " + p.deploymentPlace.Key.Name
	j := ok("%s", text).withEvidence("at", p.deploymentPlace.Written)
	if at := p.clock(p.deploymentPlace.Written); at != "" {
		j = j.withScreenText(text + " at " + at)
	}
	return j
}

// unreported judges a deployment on which its agent has not reported yet.
func (p deliveryLinks) unreported() linkState {
	ready, text := "lies ready", ", and its agent has not reported on it yet"
	next := time.Time{}
	if p.deploymentPlace.Cluster != nil {
		if next = view.NextVisit(p.deploymentPlace.Cluster); !next.IsZero() {
			text = ", and its agent comes by a schedule"
		}
	}
	j := wait(ReasonNotReported, ready+text).withSince(p.deploymentPlace.Written).withEvidence("nextCheckIn", next)
	if at := p.clock(p.deploymentPlace.Written); at != "" {
		ready += " since " + at
	}
	if at := p.clock(next); at != "" {
		text = ", and its agent comes next at " + at
	}
	if ready+text != j.Text {
		j = j.withScreenText(ready + text)
	}
	return j.hint("to see it from the other side, on the site", "fleet-agent status")
}

// unwritableCluster is a cluster to which nothing can be written.
func (p deliveryLinks) unwritableCluster() (linkState, bool) {
	c := p.deploymentPlace.Cluster
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionProcessed); cond != nil && cond.Status == corev1.ConditionFalse && cond.Reason != "" {
		return stop(cond.Reason, cond.Message).withSince(view.ChangedAt(c.Status.Conditions, cond.Type)).
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	if p.place.Namespace == "" {
		return wait(ReasonNotWritten, "the cluster has no namespace for deployments yet").
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	return linkState{}, false
}

// reportedOff reports whether the manager says that it cannot write the deployment,
// for a reason that is neither the rollout's nor the agent's.
func (p deliveryLinks) reportedOff() bool {
	if p.reported == nil || p.reported.State != fleet.ErrApplied || !p.outdated {
		return false
	}
	return p.deploymentPlace.Deployment == nil || p.reported.Message != view.DeploymentMessage(p.deploymentPlace.Deployment)
}

// agentAway is an agent that cannot fetch anything now.
func (p deliveryLinks) agentAway() (linkState, bool) {
	if p.deploymentPlace.Cluster == nil {
		return linkState{}, false
	}
	name := p.deploymentPlace.Key.Name
	switch view.ClusterState(p.deploymentPlace.Cluster) {
	case fleet.WaitCheckIn:
		return wait(fleet.ReasonNeverSeen, "the agent has not checked in yet").withSince(p.deploymentPlace.Cluster.CreationTimestamp.Time).
			hint("to see what happens", "fleet events cluster/%s -n %s", name, p.deploymentPlace.Key.Namespace).
			hint("and on the site", "fleet-agent status"), true
	case fleet.Offline:
		if j, ended := p.lockedOut(); ended {
			return j, true
		}
		text := cmp.Or(view.ShortCommit(p.deploymentPlace.Deployment.Labels[fleet.LabelCommit]), "the newest version") + " lies ready"
		seen := p.lastSeen()
		j := wait(fleet.ReasonOffline, text+", not fetched").reported("the agent missed 3 check-ins").withSince(seen).
			withEvidence("at", p.deploymentPlace.Written).withEvidence("lastSeen", seen)
		if at := p.clock(p.deploymentPlace.Written); at != "" {
			j = j.withScreenText(text + " since " + at + ", not fetched")
		}
		if c := condition.Find(p.deploymentPlace.Cluster.Status.Conditions, fleet.ConditionConnected); c != nil && c.Message != "" {
			j = j.reported(c.Message)
		}
		return j.hint("nothing to do", "it applies what is newest when it is back, and skips what lies between").
			hint("on the site", "fleet-agent status"), true
	}
	return linkState{}, false
}

// lockedOut is an agent that is away, and whose credential has ended meanwhile.
func (p deliveryLinks) lockedOut() (linkState, bool) {
	list := p.deploymentPlace.Cluster.Status.Conditions
	c := condition.Find(list, fleet.ConditionCredential)
	if c == nil {
		return linkState{}, false
	}
	key, since := p.deploymentPlace.Key, view.ChangedAt(list, c.Type)
	switch c.Reason {
	case credential.ReasonGraceOver:
		return stop(c.Reason, c.Message).withSince(since).withEvidence("lastSeen", p.lastSeen()).
			hint("to let it in again", "fleet cluster join -n %s %s", key.Namespace, key.Name), true
	case credential.ReasonExpired:
		return wait(c.Reason, c.Message).withSince(since).withEvidence("lastSeen", p.lastSeen()).
			hint("nothing to do", "it fetches a new credential when it is back, and applies what is newest").
			hint("on the site", "fleet-agent status"), true
	}
	return linkState{}, false
}

func (p *bundleOnCluster) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return view.Clock(t, p.Now)
}

// hiddenDeployment is a link about the deployment where that may not be read: the
// Bundle's status may say something of it.
func (p *bundleOnCluster) hiddenDeployment(name Name) linkState {
	if p.reported == nil {
		j := p.hiddenLink(Deployments)
		if p.state == fleet.Ready {
			j.Verdict, j.Text = OK, "the bundle is Ready on all its clusters; more is not yours to see"
		}
		return j
	}
	at := map[fleet.BundleState]Name{
		fleet.WaitApplied: Delivered, fleet.ErrApplied: Applied, fleet.NotReady: Healthy, fleet.Modified: Healthy,
	}[p.reported.State]
	message, failed := strings.CutPrefix(p.reported.Message, summary.NotInstalled)
	if failed || strings.HasPrefix(message, summary.UpgradeFailed) {
		at = Applied
	}
	if at != name {
		return p.hiddenLink(Deployments)
	}
	text := cmp.Or(message, objectText(p.reported.ModifiedStatus, p.reported.NonReadyStatus), fmt.Sprintf("it is %s", p.reported.State))
	j := stop(string(p.reported.State), text)
	if name == Delivered {
		j = wait(string(p.reported.State), text)
	}
	return j.hint("to see what the Bundle tells of it", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
}

// objectText is the first object of two lists, in words.
func objectText(modified []fleet.ModifiedStatus, unready []fleet.NonReadyStatus) string {
	switch {
	case len(modified) > 0:
		return condition.Message(modified[0].String())
	case len(unready) > 0:
		return condition.Message(summary.Readable(unready[0].String()))
	}
	return ""
}
