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

// fresh reports whether a condition speaks of this version of the deployment, or
// does not say.
func (p *pair) fresh(c *fleet.Condition) bool {
	return c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= p.at.Deployment.Generation)
}

// waiting is the condition with which the agent says what it waits for, or nil.
func (p *pair) waiting() *fleet.Condition {
	if p.at.Deployment == nil {
		return nil
	}
	c := condition.Find(p.at.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionUnknown || c.Reason == fleet.ReasonProgressing || !p.fresh(c) {
		return nil
	}
	return c
}

// depending is the condition with which the agent says for which other bundles it waits,
// that one is not there, or that they wait for each other; nil where it says none of this.
// Where the deployment may not be read, it has what the Bundle's status repeats of it.
func (p *pair) depending() *fleet.Condition {
	if p.reportedDependency() {
		c := fleet.Condition{Type: fleet.ConditionDeployed, Reason: dependency.ReasonNotReady, Message: p.reported.Message}
		if dependency.Cyclic(c.Message) {
			c.Reason = dependency.ReasonCycle
		}
		return &c
	}
	if c := p.waiting(); c != nil && c.Reason == dependency.ReasonNotReady {
		return c
	}
	c := p.failing()
	if c != nil && (dependency.Missing(c.Message) || dependency.Unready(c.Message) || c.Reason == dependency.ReasonCycle) {
		return c
	}
	return nil
}

// reportedDependency reports whether the deployment may not be read, and the Bundle's status says
// that its agent waits for other bundles.
func (p *pair) reportedDependency() bool {
	if p.at.Deployment != nil || !p.hides(Deployments) || p.reported == nil {
		return false
	}
	m := p.reported.Message
	return dependency.Missing(m) || dependency.Unready(m) || dependency.Cyclic(m)
}

// lacking is the condition with which the agent says what is missing on the cluster, for
// a user to make; nil where it does not say so.
func (p *pair) lacking() *fleet.Condition {
	if c := p.failing(); c != nil && (c.Reason == release.ReasonNoNamespace || c.Reason == release.ReasonNoValues) {
		return c
	}
	return nil
}

// failing is the condition Deployed that is False for this version, or nil.
func (p *pair) failing() *fleet.Condition {
	if p.at.Deployment == nil {
		return nil
	}
	c := condition.Find(p.at.Deployment.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status != corev1.ConditionFalse || !p.fresh(c) {
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
type deliveryLinks struct{ *pair }

// judgeDepends looks at other bundles that have to be Ready there first.
func (p deliveryLinks) judgeDepends() judgement {
	refs := p.Bundle.Spec.DependsOn
	if p.at.Deployment != nil && !p.behind {
		refs = p.at.Deployment.Spec.DependsOn
	}
	var names, quoted []string
	for _, r := range refs {
		name := cmp.Or(r.Name, "bundles with "+metav1.FormatLabelSelector(r.Selector))
		names, quoted = append(names, name), append(quoted, r.Name)
	}
	if c := p.depending(); c != nil {
		text := dependency.Plain(c.Message)
		j := wait(c.Reason, text).proof("dependsOn", names)
		if p.at.Deployment != nil {
			j = j.since(view.Since(p.at.Deployment.Status.Conditions, c.Type))
		}
		if c.Reason == dependency.ReasonCycle {
			j.Verdict = Stop
			return j.hint("to end it", "take one of these bundles out of dependsOn of another, in %s or in that of the other bundle", p.file())
		}
		if dependency.Missing(c.Message) {
			return j.hint("to put it right", "correct dependsOn in %s, or add a target for %s to the bundle that it names", p.file(), p.at.Key.Name)
		}
		for _, name := range quoted {
			if name != "" && strings.Contains(text, name) {
				return j.hint("to see what that one waits for", "fleet explain %s %s -n %s", name, p.at.Key.Name, p.at.Key.Namespace)
			}
		}
		return j.hint("to see all that is there", "fleet get deployments -n %s --cluster %s", p.at.Key.Namespace, p.at.Key.Name)
	}
	if len(names) == 0 {
		return ok("on nothing")
	}
	if p.hidden() {
		return p.unseen(Deployments).proof("dependsOn", names)
	}
	return ok("on %s", strings.Join(names, ", ")).proof("dependsOn", names)
}

// judgeDelivered looks at whether the agent has what it needs.
func (p deliveryLinks) judgeDelivered() judgement {
	bd, c := p.at.Deployment, p.at.Cluster
	if bd == nil && p.hides(Deployments) {
		return p.undisclosed(Delivered)
	}
	if c != nil && (bd == nil || p.behind) {
		if j, stuck := p.unplaced(); stuck {
			return j
		}
	}
	switch {
	case p.reportedOff():
		return stop(string(p.reported.State), p.reported.Message).hint("to see what happens", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	case bd == nil && p.Manager.Gone(), bd != nil && p.behind && p.Manager.Gone():
		return p.managerGone()
	case bd == nil:
		return wait(ReasonNotWritten, "not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	case bd.Annotations[fleet.AnnotationWithdrawn] != "":
		return wait(ReasonLeaving, "it was withdrawn, and is wanted again").hint("to see whether the manager runs", "fleet status")
	case p.behind:
		return wait(ReasonNotWritten, "the newest version is not written yet").hint("to see what the manager does", "fleet events bundle/%s -n %s", p.Bundle.Name, p.Bundle.Namespace)
	}
	current := bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	if j, away := p.away(); away && !current {
		return j
	}
	if w := p.waiting(); w != nil && isDelivery(w.Reason) {
		return wait(w.Reason, w.Message).since(view.Since(bd.Status.Conditions, w.Type)).
			hint("to see it from the other side, on the site", "fleet-agent status")
	}
	if deployed := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); !current &&
		(deployed == nil || !p.fresh(deployed) || deployed.Status == corev1.ConditionTrue || deployed.Reason == fleet.ReasonProgressing) {
		return p.unreported()
	}
	text := cmp.Or(view.Short(bd.Labels[fleet.LabelCommit]), "the newest version") + " to " + p.at.Key.Name
	j := ok("%s", text).proof("at", p.at.Written)
	if at := p.clock(p.at.Written); at != "" {
		j = j.shown(text + " at " + at)
	}
	return j
}

// unreported judges a deployment on which its agent has not reported yet.
func (p deliveryLinks) unreported() judgement {
	ready, text := "lies ready", ", and its agent has not reported on it yet"
	next := time.Time{}
	if p.at.Cluster != nil {
		if next = view.NextVisit(p.at.Cluster); !next.IsZero() {
			text = ", and its agent comes by a schedule"
		}
	}
	j := wait(ReasonNotReported, ready+text).since(p.at.Written).proof("nextCheckIn", next)
	if at := p.clock(p.at.Written); at != "" {
		ready += " since " + at
	}
	if at := p.clock(next); at != "" {
		text = ", and its agent comes next at " + at
	}
	if ready+text != j.Text {
		j = j.shown(ready + text)
	}
	return j.hint("to see it from the other side, on the site", "fleet-agent status")
}

// unplaced is a cluster to which nothing can be written.
func (p deliveryLinks) unplaced() (judgement, bool) {
	c := p.at.Cluster
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionProcessed); cond != nil && cond.Status == corev1.ConditionFalse && cond.Reason != "" {
		return stop(cond.Reason, cond.Message).since(view.Since(c.Status.Conditions, cond.Type)).
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	if p.place.Namespace == "" {
		return wait(ReasonNotWritten, "the cluster has no namespace for deployments yet").
			hint("to see what happens", "fleet events cluster/%s -n %s", c.Name, c.Namespace), true
	}
	return judgement{}, false
}

// reportedOff reports whether the manager says that it cannot write the deployment,
// for a reason that is neither the rollout's nor the agent's.
func (p deliveryLinks) reportedOff() bool {
	if p.reported == nil || p.reported.State != fleet.ErrApplied || !p.behind {
		return false
	}
	return p.at.Deployment == nil || p.reported.Message != view.DeploymentMessage(p.at.Deployment)
}

// away is an agent that cannot fetch anything now.
func (p deliveryLinks) away() (judgement, bool) {
	if p.at.Cluster == nil {
		return judgement{}, false
	}
	name := p.at.Key.Name
	switch view.ClusterState(p.at.Cluster) {
	case fleet.WaitCheckIn:
		return wait(fleet.ReasonNeverSeen, "the agent has not checked in yet").since(p.at.Cluster.CreationTimestamp.Time).
			hint("to see what happens", "fleet events cluster/%s -n %s", name, p.at.Key.Namespace).
			hint("and on the site", "fleet-agent status"), true
	case fleet.Offline:
		if j, ended := p.lockedOut(); ended {
			return j, true
		}
		text := cmp.Or(view.Short(p.at.Deployment.Labels[fleet.LabelCommit]), "the newest version") + " lies ready"
		seen := p.lastSeen()
		j := wait(fleet.ReasonOffline, text+", not fetched").reported("the agent missed 3 check-ins").since(seen).
			proof("at", p.at.Written).proof("lastSeen", seen)
		if at := p.clock(p.at.Written); at != "" {
			j = j.shown(text + " since " + at + ", not fetched")
		}
		if c := condition.Find(p.at.Cluster.Status.Conditions, fleet.ConditionConnected); c != nil && c.Message != "" {
			j = j.reported(c.Message)
		}
		return j.hint("nothing to do", "it applies what is newest when it is back, and skips what lies between").
			hint("on the site", "fleet-agent status"), true
	}
	return judgement{}, false
}

// lockedOut is an agent that is away, and whose credential has ended meanwhile.
func (p deliveryLinks) lockedOut() (judgement, bool) {
	list := p.at.Cluster.Status.Conditions
	c := condition.Find(list, fleet.ConditionCredential)
	if c == nil {
		return judgement{}, false
	}
	key, since := p.at.Key, view.Since(list, c.Type)
	switch c.Reason {
	case credential.ReasonGraceOver:
		return stop(c.Reason, c.Message).since(since).proof("lastSeen", p.lastSeen()).
			hint("to let it in again", "fleet cluster join -n %s %s", key.Namespace, key.Name), true
	case credential.ReasonExpired:
		return wait(c.Reason, c.Message).since(since).proof("lastSeen", p.lastSeen()).
			hint("nothing to do", "it fetches a new credential when it is back, and applies what is newest").
			hint("on the site", "fleet-agent status"), true
	}
	return judgement{}, false
}

func (p *pair) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return view.Clock(t, p.Now)
}

// undisclosed is a link about the deployment where that may not be read: the
// Bundle's status may say something of it.
func (p *pair) undisclosed(name Name) judgement {
	if p.reported == nil {
		j := p.unseen(Deployments)
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
		return p.unseen(Deployments)
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
