package explain

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// agentLinks judges what the agent reports of the release and its objects.
type agentLinks struct{ *bundleOnCluster }

// appliedLink looks at what became of the release.
func (al agentLinks) appliedLink() linkState {
	bd := al.deploymentPlace.Deployment
	if bd == nil {
		return al.hiddenDeployment(Applied)
	}
	list := bd.Status.Conditions
	has, _, _ := strings.Cut(bd.Status.Release, ":")
	c := al.waiting()
	if lacking := al.missingObjectCondition(); lacking != nil {
		c = lacking
	}
	if c != nil && c.Reason != dependency.ReasonNotReady {
		j := wait(c.Reason, c.Message).withSince(view.ChangedAt(list, c.Type)).withEvidence("release", has)
		if hints, found := al.rivalHints(c.Reason, c.Message); found {
			j.hints = hints
			return j
		}
		if hints := al.absenceHints(c.Message); hints != nil {
			j.hints = hints
			return j
		}
		return j.hint("to see what happens", "fleet get deployments -n %s --cluster %s -o wide", al.deploymentPlace.Key.Namespace, al.deploymentPlace.Key.Name)
	}
	deployed, installed := condition.Find(list, fleet.ConditionDeployed), condition.Find(list, fleet.ConditionInstalled)
	current := bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	switch {
	case deployed != nil && deployed.Status == corev1.ConditionFalse && !current:
		c = deployed
	case installed != nil && installed.Status == corev1.ConditionFalse && current:
		c = installed
	case !current:
		return wait(ReasonNotReported, "its agent is at work on it").withSince(al.deploymentPlace.Written).
			hint("to wait for it", "fleet wait bundle/%s -n %s", al.Bundle.Name, al.Bundle.Namespace)
	default:
		return ok("release %s", bd.Status.Release).withEvidence("release", bd.Status.Release)
	}
	message := strings.TrimPrefix(c.Message, summary.NotInstalled)
	j := stop(cmp.Or(c.Reason, fleet.ReasonError), message).withSince(view.ChangedAt(list, c.Type)).withEvidence("release", has)
	if stalled := condition.Find(list, fleet.ConditionStalled); c == installed || stalled != nil && stalled.Status == corev1.ConditionTrue && al.isCurrent(stalled) {
		again := "the agent does not try again until something else is wanted"
		if release.MayPass(c.Reason) {
			again = "the agent tries again every 5 minutes, in case that is gone"
		}
		j = j.detail(again).withEvidence("permanent", true)
	} else {
		j = j.detail("the agent tries again by itself").withEvidence("permanent", false)
	}
	j.hints = al.releaseHints(j.Reason, message)
	if len(bd.Status.ModifiedStatus) > 0 {
		j = j.hint("to see what differs there", "fleet bundlediff %s %s -n %s", al.Bundle.Name, al.deploymentPlace.Key.Name, al.deploymentPlace.Key.Namespace)
	}
	return j
}

// reasonCorrection: drift could not be corrected. The reason of the condition is Error; agents of
// older versions write this one.
const reasonCorrection = "CorrectionFailed"

// healthyLink looks at the live objects.
func (al agentLinks) healthyLink() linkState {
	bd := al.deploymentPlace.Deployment
	if bd == nil {
		return al.hiddenDeployment(Healthy)
	}
	st, list := &bd.Status, bd.Status.Conditions
	since := view.ChangedAt(list, fleet.ConditionReady)
	ready := condition.Find(list, fleet.ConditionReady)
	if c := condition.Find(list, fleet.ConditionMonitored); c != nil && c.Status == corev1.ConditionFalse {
		return stop(cmp.Or(c.Reason, fleet.ReasonError), c.Message).withSince(view.ChangedAt(list, c.Type)).
			hint("to see what the agent is refused", "fleet-agent status, on the site")
	}
	switch {
	case ready != nil && (ready.Reason == reasonCorrection || strings.HasPrefix(ready.Message, summary.NotCorrected)):
		return stop(reasonCorrection, ready.Message).withSince(since).
			hint("to see what differs", "fleet get deployments -n %s --cluster %s -o yaml", al.deploymentPlace.Key.Namespace, al.deploymentPlace.Key.Name)
	case !st.Ready && len(st.NonReadyStatus) > 0:
		return al.unreadyObjects().withSince(since)
	case !st.Ready && ready != nil && ready.Message != "":
		return wait(cmp.Or(ready.Reason, string(fleet.NotReady)), ready.Message).withSince(since)
	case !st.Ready:
		return wait(string(fleet.NotReady), "not ready").withSince(since)
	case !st.NonModified:
		return al.modified().withSince(since)
	}
	text := "all objects are ready"
	if n := st.ResourceCounts.DesiredReady; n > 0 {
		text = fmt.Sprintf("%d of %d objects ready", st.ResourceCounts.Ready, n)
	}
	j := ok("%s", text).withEvidence("ready", st.ResourceCounts.Ready).withEvidence("objects", st.ResourceCounts.DesiredReady)
	if al.offline {
		j = j.withEvidence("lastSeen", al.lastSeen()).withScreenText(text + ", as of " + al.clock(al.lastSeen()))
	}
	return j
}

// unreadyObjects are objects that are not ready. Where one says that it never will be,
// the link stops.
func (al agentLinks) unreadyObjects() linkState {
	list := al.deploymentPlace.Deployment.Status.NonReadyStatus
	first := list[0]
	j := wait(string(fleet.NotReady), condition.Message(summary.Readable(first.String())))
	for i, o := range list {
		if o.Summary.Error {
			j.Verdict = Stop
		}
		if i > 0 && i <= 3 {
			j = j.detail(condition.Message(summary.Readable(o.String())))
		}
	}
	if more := len(list) - 4; more > 0 {
		j = j.detail(fmt.Sprintf("and %d more", more))
	}
	return j.withEvidence("objects", objects(list)).hint("on "+al.deploymentPlace.Key.Name, "%s", describe(first.APIVersion, first.Kind, first.Namespace, first.Name))
}

func objects(list []fleet.NonReadyStatus) []string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = strings.TrimSpace(o.APIVersion + " " + o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	}
	return out
}

// describe returns the command that shows more about an object.
func describe(apiVersion, kind, namespace, name string) string {
	resource := strings.ToLower(kind)
	if group, _, grouped := strings.Cut(apiVersion, "/"); grouped && strings.Contains(group, ".") {
		resource += "." + group
	}
	if namespace == "" {
		return fmt.Sprintf("kubectl describe %s %s", resource, name)
	}
	return fmt.Sprintf("kubectl -n %s describe %s %s", namespace, resource, name)
}

// modified judges objects that another writer has changed.
func (al agentLinks) modified() linkState {
	list := al.deploymentPlace.Deployment.Status.ModifiedStatus
	text := "objects were changed by others"
	if len(list) > 0 {
		text = condition.Message(list[0].String())
	}
	j := stop(string(fleet.Modified), text)
	for i, o := range list {
		if i > 0 && i <= 3 {
			j = j.detail(condition.Message(o.String()))
		}
		if i <= 3 {
			j = j.detail(al.describeChanges(o)...)
		}
	}
	if more := len(list) - 4; more > 0 {
		j = j.detail(fmt.Sprintf("and %d more", more))
	}
	if al.deploymentPlace.Deployment.Spec.CorrectDrift == nil || !al.deploymentPlace.Deployment.Spec.CorrectDrift.Enabled {
		j = j.hint("to have changes undone", "set correctDrift.enabled: true in %s", al.file())
	}
	return j.hint("or keep them", "put the change into the repository, or under diff.comparePatches in %s", al.file())
}

// describeChanges says of the fields of an object what they are, and who made them so.
func (al agentLinks) describeChanges(m fleet.ModifiedStatus) []string {
	var out []string
	for _, c := range m.Changes {
		text := fmt.Sprintf("%s is %s, not %s", c.Field, c.Live, c.Wanted)
		if c.Live == "" {
			text = fmt.Sprintf("%s is missing", c.Field)
		}
		if c.Manager != "" {
			text += ", by " + c.Manager
		}
		if c.Time != nil {
			text += ", " + view.Ago(c.Time.Time, al.Now) + " ago"
		}
		out = append(out, condition.Message(text))
	}
	return out
}

// previousVersionText says what is known of the version before one that was not installed.
func previousVersionText(st *fleet.BundleDeploymentStatus) string {
	text := objectText(st.ModifiedStatus, st.NonReadyStatus)
	if text == "" {
		return "what ran before may still run"
	}
	return "of what ran before: " + text
}

// describeRunning says what runs while something stops the newest version.
func (al agentLinks) describeRunning() linkState {
	bd := al.deploymentPlace.Deployment
	j := linkState{Link: Link{Verdict: Unknown}}
	if bd == nil || bd.Status.Release == "" {
		before := ""
		if bd != nil {
			before, _ = summary.Upgrade(bd)
		}
		switch {
		case before != "":
			j.Text = summary.UpgradeFailed + ", " + before
			if text := objectText(bd.Status.ModifiedStatus, bd.Status.NonReadyStatus); text != "" {
				j.Text += "; " + previousVersionText(&bd.Status)
			}
		case bd != nil && condition.IsFalse(bd.Status.Conditions, fleet.ConditionInstalled):
			j.Text = "not installed; " + previousVersionText(&bd.Status)
		case bd != nil || !al.isForbidden(Deployments):
			j.Text = "nothing of it runs there"
		}
		return j
	}
	state := fleet.NotReady
	switch {
	case bd.Status.Ready && bd.Status.NonModified:
		state = fleet.Ready
	case bd.Status.Ready:
		state = fleet.Modified
	}
	text := fmt.Sprintf("release %s is %s", bd.Status.Release, state)
	j = j.withEvidence("release", bd.Status.Release).withEvidence("lastState", string(state))
	if commit := view.DeploymentCommit(bd); commit != "" && !al.outdated {
		text = view.ShortCommit(commit) + ", " + text
		j = j.withEvidence("lastCommit", commit)
	}
	staged := ""
	if bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID {
		staged = "; the newest version is staged"
	}
	j.Text = text + staged
	if al.offline {
		j = j.withEvidence("lastSeen", al.lastSeen()).withScreenText(text + ", as of " + al.clock(al.lastSeen()) + staged)
	}
	return j
}
