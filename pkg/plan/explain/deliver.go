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
func (b *bundleOnCluster) isCurrent(c *fleet.Condition) bool {
	return c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= b.deploymentPlace.Deployment.Generation)
}

// waiting is the condition with which the agent says what it waits for, or nil.
func (b *bundleOnCluster) waiting() *fleet.Condition {
	if b.deploymentPlace.Deployment == nil {
		return nil
	}
	c := condition.Find(b.deploymentPlace.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionUnknown || c.Reason == fleet.ReasonProgressing || !b.isCurrent(c) {
		return nil
	}
	return c
}

// dependencyCondition is the condition with which the agent says for which other bundles it waits,
// that one is not there, or that they wait for each other; nil where it says none of this.
// Where the deployment may not be read, it has what the Bundle's status repeats of it.
func (b *bundleOnCluster) dependencyCondition() *fleet.Condition {
	if b.reportedDependency() {
		c := fleet.Condition{Type: fleet.ConditionDeployed, Reason: dependency.ReasonNotReady, Message: b.reported.Message}
		if dependency.IsCyclicMessage(c.Message) {
			c.Reason = dependency.ReasonCycle
		}
		return &c
	}
	if c := b.waiting(); c != nil && c.Reason == dependency.ReasonNotReady {
		return c
	}
	c := b.failedCondition()
	if c != nil && (dependency.IsMissingMessage(c.Message) || dependency.IsUnreadyMessage(c.Message) || c.Reason == dependency.ReasonCycle) {
		return c
	}
	return nil
}

// reportedDependency reports whether the deployment may not be read, and the Bundle's status says
// that its agent waits for other bundles.
func (b *bundleOnCluster) reportedDependency() bool {
	if b.deploymentPlace.Deployment != nil || !b.isForbidden(Deployments) || b.reported == nil {
		return false
	}
	m := b.reported.Message
	return dependency.IsMissingMessage(m) || dependency.IsUnreadyMessage(m) || dependency.IsCyclicMessage(m)
}

// missingObjectCondition is the condition with which the agent says what is missing on the cluster, for
// a user to make; nil where it does not say so.
func (b *bundleOnCluster) missingObjectCondition() *fleet.Condition {
	if c := b.failedCondition(); c != nil && (c.Reason == release.ReasonNoNamespace || c.Reason == release.ReasonNoValues) {
		return c
	}
	return nil
}

// failedCondition is the condition Deployed that is False for this version, or nil.
func (b *bundleOnCluster) failedCondition() *fleet.Condition {
	if b.deploymentPlace.Deployment == nil {
		return nil
	}
	c := condition.Find(b.deploymentPlace.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionFalse || !b.isCurrent(c) {
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
func (d deliveryLinks) dependsLink() linkState {
	refs := d.Bundle.Spec.DependsOn
	if d.deploymentPlace.Deployment != nil && !d.outdated {
		refs = d.deploymentPlace.Deployment.Spec.DependsOn
	}
	var names, quoted []string
	for _, r := range refs {
		name := cmp.Or(r.Name, "bundles with "+metav1.FormatLabelSelector(r.Selector))
		names, quoted = append(names, name), append(quoted, r.Name)
	}
	if c := d.dependencyCondition(); c != nil {
		text := dependency.PlainMessage(c.Message)
		j := wait(c.Reason, text).withEvidence("dependsOn", names)
		if d.deploymentPlace.Deployment != nil {
			j = j.withSince(view.ChangedAt(d.deploymentPlace.Deployment.Status.Conditions, c.Type))
		}
		if c.Reason == dependency.ReasonCycle {
			j.Verdict = Stop
			return j.hint("to end it", "take one of these bundles out of dependsOn of another, in %s or in that of the other bundle", d.file())
		}
		if dependency.IsMissingMessage(c.Message) {
			return j.hint("to put it right", "correct dependsOn in %s, or add a target for %s to the bundle that it names", d.file(), d.deploymentPlace.Key.Name)
		}
		for _, name := range quoted {
			if name != "" && strings.Contains(text, name) {
				return j.hint("to see what that one waits for", "fleet explain %s %s -n %s", name, d.deploymentPlace.Key.Name, d.deploymentPlace.Key.Namespace)
			}
		}
		return j.hint("to see all that is there", "fleet get deployments -n %s --cluster %s", d.deploymentPlace.Key.Namespace, d.deploymentPlace.Key.Name)
	}
	if len(names) == 0 {
		return ok("on nothing")
	}
	if d.isHidden() {
		return d.hiddenLink(Deployments).withEvidence("dependsOn", names)
	}
	return ok("on %s", strings.Join(names, ", ")).withEvidence("dependsOn", names)
}

// deliveredLink looks at whether the agent has what it needs.
func (d deliveryLinks) deliveredLink() linkState {
	bd, c := d.deploymentPlace.Deployment, d.deploymentPlace.Cluster
	if bd == nil && d.isForbidden(Deployments) {
		return d.hiddenDeployment(Delivered)
	}
	if c != nil && (bd == nil || d.outdated) {
		if j, stuck := d.unwritableCluster(); stuck {
			return j
		}
	}
	switch {
	case d.reportedOff():
		return stop(string(d.reported.State), d.reported.Message).hint("to see what happens", "fleet events bundle/%s -n %s", d.Bundle.Name, d.Bundle.Namespace)
	case bd == nil && d.Manager.IsGone(), bd != nil && d.outdated && d.Manager.IsGone():
		return d.managerGone()
	case bd == nil:
		return wait(ReasonNotWritten, "not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", d.Bundle.Name, d.Bundle.Namespace)
	case bd.Annotations[fleet.AnnotationWithdrawn] != "":
		return wait(ReasonLeaving, "it was withdrawn, and is wanted again").hint("to see whether the manager runs", "fleet status")
	case d.outdated:
		return wait(ReasonNotWritten, "the newest version is not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", d.Bundle.Name, d.Bundle.Namespace)
	}
	current := bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	if j, away := d.agentAway(); away && !current {
		return j
	}
	if w := d.waiting(); w != nil && isDelivery(w.Reason) {
		return wait(w.Reason, w.Message).withSince(view.ChangedAt(bd.Status.Conditions, w.Type)).
			hint("to see it from the other side, on the site", "fleet-agent status")
	}
	if deployed := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); !current &&
		(deployed == nil || !d.isCurrent(deployed) || deployed.Status == corev1.ConditionTrue || deployed.Reason == fleet.ReasonProgressing) {
		return d.unreported()
	}
	text := cmp.Or(view.ShortCommit(bd.Labels[fleet.LabelCommit]), "the newest version") + " to " + d.deploymentPlace.Key.Name
	j := ok("%s", text).withEvidence("at", d.deploymentPlace.Written)
	if at := d.clock(d.deploymentPlace.Written); at != "" {
		j = j.withScreenText(text + " at " + at)
	}
	return j
}

// unreported judges a deployment on which its agent has not reported yet.
func (d deliveryLinks) unreported() linkState {
	ready, text := "lies ready", ", and its agent has not reported on it yet"
	next := time.Time{}
	if d.deploymentPlace.Cluster != nil {
		if next = view.NextVisit(d.deploymentPlace.Cluster); !next.IsZero() {
			text = ", and its agent comes by a schedule"
		}
	}
	j := wait(ReasonNotReported, ready+text).withSince(d.deploymentPlace.Written).withEvidence("nextCheckIn", next)
	if at := d.clock(d.deploymentPlace.Written); at != "" {
		ready += " since " + at
	}
	if at := d.clock(next); at != "" {
		text = ", and its agent comes next at " + at
	}
	if ready+text != j.Text {
		j = j.withScreenText(ready + text)
	}
	return j.hint("to see it from the other side, on the site", "fleet-agent status")
}

// unwritableCluster is a cluster to which nothing can be written.
func (d deliveryLinks) unwritableCluster() (linkState, bool) {
	c := d.deploymentPlace.Cluster
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionProcessed); cond != nil && cond.Status == corev1.ConditionFalse && cond.Reason != "" {
		return stop(cond.Reason, cond.Message).withSince(view.ChangedAt(c.Status.Conditions, cond.Type)).
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	if d.place.Namespace == "" {
		return wait(ReasonNotWritten, "the cluster has no namespace for deployments yet").
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	return linkState{}, false
}

// reportedOff reports whether the manager says that it cannot write the deployment,
// for a reason that is neither the rollout's nor the agent's.
func (d deliveryLinks) reportedOff() bool {
	if d.reported == nil || d.reported.State != fleet.ErrApplied || !d.outdated {
		return false
	}
	return d.deploymentPlace.Deployment == nil || d.reported.Message != view.DeploymentMessage(d.deploymentPlace.Deployment)
}

// agentAway is an agent that cannot fetch anything now.
func (d deliveryLinks) agentAway() (linkState, bool) {
	if d.deploymentPlace.Cluster == nil {
		return linkState{}, false
	}
	name := d.deploymentPlace.Key.Name
	switch view.ClusterState(d.deploymentPlace.Cluster) {
	case fleet.WaitCheckIn:
		return wait(fleet.ReasonNeverSeen, "the agent has not checked in yet").withSince(d.deploymentPlace.Cluster.CreationTimestamp.Time).
			hint("to see what happens", "fleet events cluster/%s -n %s", name, d.deploymentPlace.Key.Namespace).
			hint("and on the site", "fleet-agent status"), true
	case fleet.Offline:
		if j, ended := d.lockedOut(); ended {
			return j, true
		}
		text := cmp.Or(view.ShortCommit(d.deploymentPlace.Deployment.Labels[fleet.LabelCommit]), "the newest version") + " lies ready"
		seen := d.lastSeen()
		j := wait(fleet.ReasonOffline, text+", not fetched").reported("the agent missed 3 check-ins").withSince(seen).
			withEvidence("at", d.deploymentPlace.Written).withEvidence("lastSeen", seen)
		if at := d.clock(d.deploymentPlace.Written); at != "" {
			j = j.withScreenText(text + " since " + at + ", not fetched")
		}
		if c := condition.Find(d.deploymentPlace.Cluster.Status.Conditions, fleet.ConditionConnected); c != nil && c.Message != "" {
			j = j.reported(c.Message)
		}
		return j.hint("nothing to do", "it applies what is newest when it is back, and skips what lies between").
			hint("on the site", "fleet-agent status"), true
	}
	return linkState{}, false
}

// lockedOut is an agent that is away, and whose credential has ended meanwhile.
func (d deliveryLinks) lockedOut() (linkState, bool) {
	list := d.deploymentPlace.Cluster.Status.Conditions
	c := condition.Find(list, fleet.ConditionCredential)
	if c == nil {
		return linkState{}, false
	}
	key, since := d.deploymentPlace.Key, view.ChangedAt(list, c.Type)
	switch c.Reason {
	case credential.ReasonGraceOver:
		return stop(c.Reason, c.Message).withSince(since).withEvidence("lastSeen", d.lastSeen()).
			hint("to let it in again", "fleet cluster join -n %s %s", key.Namespace, key.Name), true
	case credential.ReasonExpired:
		return wait(c.Reason, c.Message).withSince(since).withEvidence("lastSeen", d.lastSeen()).
			hint("nothing to do", "it fetches a new credential when it is back, and applies what is newest").
			hint("on the site", "fleet-agent status"), true
	}
	return linkState{}, false
}

func (b *bundleOnCluster) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return view.Clock(t, b.Now)
}

// hiddenDeployment is a link about the deployment where that may not be read: the
// Bundle's status may say something of it.
func (b *bundleOnCluster) hiddenDeployment(name Name) linkState {
	if b.reported == nil {
		j := b.hiddenLink(Deployments)
		if b.state == fleet.Ready {
			j.Verdict, j.Text = OK, "the bundle is Ready on all its clusters; more is not yours to see"
		}
		return j
	}
	at := map[fleet.BundleState]Name{
		fleet.WaitApplied: Delivered, fleet.ErrApplied: Applied, fleet.NotReady: Healthy, fleet.Modified: Healthy,
	}[b.reported.State]
	message, failed := strings.CutPrefix(b.reported.Message, summary.NotInstalled)
	if failed || strings.HasPrefix(message, summary.UpgradeFailed) {
		at = Applied
	}
	if at != name {
		return b.hiddenLink(Deployments)
	}
	text := cmp.Or(message, objectText(b.reported.ModifiedStatus, b.reported.NonReadyStatus), fmt.Sprintf("it is %s", b.reported.State))
	j := stop(string(b.reported.State), text)
	if name == Delivered {
		j = wait(string(b.reported.State), text)
	}
	return j.hint("to see what the Bundle tells of it", "fleet events bundle/%s -n %s", b.Bundle.Name, b.Bundle.Namespace)
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
