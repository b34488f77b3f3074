// Package summary makes the statuses of the manager: it turns what an agent reports
// about one deployment into a state word, and many deployments into the status of a
// Bundle, a GitRepo, a Cluster or a ClusterGroup.
//
// State words, ranks and texts are those of Fleet's API. The same facts give the same
// text, so that the manager writes nothing when nothing has changed.
package summary

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// A Deployment is what summaries need about one Bundle on one cluster.
type Deployment struct {
	Bundle  string    // name of the Bundle and of its BundleDeployment
	Cluster string    // "<namespace>/<name>" of the Cluster
	Repo    string    // "<namespace>/<name>" of the GitRepo, or empty
	HelmOp  string    // "<namespace>/<name>" of the HelmOp, or empty
	UID     types.UID // of the BundleDeployment; empty while there is none

	State    fleet.BundleState
	Message  string
	Modified []fleet.ModifiedStatus
	NonReady []fleet.NonReadyStatus

	// Incomplete reports that the agent reports only a part of the objects.
	Incomplete bool
	Counts     fleet.ResourceCounts
	Resources  []fleet.BundleDeploymentResource
}

// State returns the state of a deployment. wanted is the deployment id that it should have
// by the last plan; if it is empty, the staged id is used. A change that is held back is
// OutOfSync, whether it is staged already or not.
func State(bd *fleet.BundleDeployment, wanted string) fleet.BundleState {
	if wanted == "" {
		wanted = bd.Spec.StagedDeploymentID
	}
	switch {
	case bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID:
		if c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); c != nil && c.Status == corev1.ConditionFalse && !isOutdated(bd, c) {
			return fleet.ErrApplied
		}
		return fleet.WaitApplied
	case !bd.Status.Ready:
		return fleet.NotReady
	case bd.Spec.DeploymentID != wanted:
		return fleet.OutOfSync
	case !bd.Status.NonModified:
		return fleet.Modified
	}
	return fleet.Ready
}

// Message returns the text that explains the state of a deployment: why it could not be
// deployed, else why it is not installed, else why it could not be looked at.
func Message(bd *fleet.BundleDeployment) string {
	types := []string{fleet.ConditionDeployed, fleet.ConditionInstalled, fleet.ConditionMonitored}
	for _, t := range types {
		if t == fleet.ConditionInstalled && bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
			continue
		}
		if c := condition.Find(bd.Status.Conditions, t); c != nil && c.Message != "" && !isOutdated(bd, c) {
			return cmp.Or(upgradeMessage(bd), c.Message)
		}
	}
	return ""
}

// UpgradeFailed is how the message of a failed upgrade that is recorded as applied begins,
// in the condition Stalled and in Message.
const UpgradeFailed = "upgrade failed"

// NotInstalled is how the message of any failure that is recorded as applied begins, in the
// conditions Deployed and Installed (plan/report).
const NotInstalled = "not installed: "

// NotCorrected is how the message of drift begins that the agent could not correct, in the
// condition Ready.
const NotCorrected = "drift not corrected: "

// GivenUp reports whether a text of Message is about a version that the agent does not try
// again until the manager wants another one.
func GivenUp(message string) bool {
	return strings.HasPrefix(message, UpgradeFailed) || strings.HasPrefix(message, NotInstalled)
}

// stillRuns is how UpgradeText ends what it says of the release before.
const stillRuns = " still runs"

// UpgradeText returns the message of Stalled after a failed upgrade: which release was
// there before, whether it still runs, and the cause.
func UpgradeText(release string, still bool, cause string) string {
	tail := " ran before"
	if still {
		tail = stillRuns
	}
	return UpgradeFailed + ", " + release + tail + ": " + cause
}

// Upgrade returns what UpgradeText says of a deployment: "web/web:3 still runs", and the
// cause. Both are empty where the deployment has not failed so, or its agent does not say
// what was there before.
func Upgrade(bd *fleet.BundleDeployment) (before, cause string) {
	stalled, installed := condition.Find(bd.Status.Conditions, fleet.ConditionStalled), condition.Find(bd.Status.Conditions, fleet.ConditionInstalled)
	if stalled == nil || installed == nil || bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID ||
		stalled.Status != corev1.ConditionTrue || installed.Status != corev1.ConditionFalse || stalled.Reason != installed.Reason {
		return "", ""
	}
	text, failed := strings.CutPrefix(stalled.Message, UpgradeFailed+", ")
	if !failed {
		return "", ""
	}
	before, cause, _ = strings.Cut(text, ": ")
	return before, cause
}

// upgradeMessage is the text of a failed upgrade without the release, of which each
// cluster has another revision: the same failure has the same text. It is empty where
// Upgrade is.
func upgradeMessage(bd *fleet.BundleDeployment) string {
	before, cause := Upgrade(bd)
	switch {
	case before == "":
		return ""
	case strings.HasSuffix(before, stillRuns):
		return UpgradeFailed + ", the version before still runs: " + cause
	}
	return UpgradeFailed + ": " + cause
}

// isOutdated reports whether a condition Deployed is about a version that is not wanted any
// more. A failure that is recorded as applied is in Installed, too, and is about the
// version that is named as applied.
func isOutdated(bd *fleet.BundleDeployment, c *fleet.Condition) bool {
	installed := condition.Find(bd.Status.Conditions, fleet.ConditionInstalled)
	return c.Type == fleet.ConditionDeployed && bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID &&
		installed != nil && installed.Status == corev1.ConditionFalse && installed.Reason == c.Reason && installed.Message == c.Message
}

// Display returns the display part of a deployment's status. This project's agent writes it
// together with the rest; for rancher/fleet's see ManagerDisplay.
func Display(bd *fleet.BundleDeployment) fleet.BundleDeploymentDisplay {
	return fleet.BundleDeploymentDisplay{
		Deployed:  displayCondition(bd.Status.Conditions, fleet.ConditionDeployed),
		Monitored: displayCondition(bd.Status.Conditions, fleet.ConditionMonitored),
		State:     string(State(bd, "")),
	}
}

// A Reporter is the agent that writes the status of a deployment.
type Reporter struct {
	Protocol int // 0: rancher/fleet's agent, or one that has never reported
	Life     AgentLiveness
}

// ManagerDisplay returns the display part that the manager has to write to the status of
// a deployment: the agents of rancher/fleet leave it to the manager. It returns false
// where nothing is to be written: the agent writes it itself, or has never reported, so that
// it is not known whose agent will come; the deployment is being deleted; or the status
// says the same already.
func ManagerDisplay(bd *fleet.BundleDeployment, agent Reporter) (fleet.BundleDeploymentDisplay, bool) {
	if agent.Protocol != 0 || agent.Life == NeverSeen || bd.DeletionTimestamp != nil {
		return fleet.BundleDeploymentDisplay{}, false
	}
	display := Display(bd)
	return display, display != bd.Status.Display
}

// displayCondition is the status of a condition, or for a fault "Error: " and its message.
func displayCondition(list []fleet.Condition, kind string) string {
	c := condition.Find(list, kind)
	switch {
	case c == nil:
		return ""
	case c.Reason == fleet.ReasonError, c.Status == corev1.ConditionFalse && c.Message != "":
		return "Error: " + c.Message
	}
	return string(c.Status)
}

// Observe reads a BundleDeployment into d, which says whose it is: any user may have
// written the labels of the object. wanted is as for State; held says why a new version is
// held back, and explains OutOfSync.
func Observe(d Deployment, bd *fleet.BundleDeployment, wanted, held string) Deployment {
	d.UID = bd.UID
	d.State = State(bd, wanted)
	d.Message = Message(bd)
	if d.State == fleet.OutOfSync && d.Message == "" {
		d.Message = held
	}
	d.Modified = bd.Status.ModifiedStatus
	d.NonReady = bd.Status.NonReadyStatus
	d.Incomplete = bd.Status.IncompleteState
	d.Counts = bd.Status.ResourceCounts
	d.Resources = bd.Status.Resources
	return d
}

// Unwritable returns a deployment that cannot be written, and why: which version it should have
// is not known, so it is out of sync where its agent reports no fault.
func Unwritable(d Deployment, why string) Deployment {
	if d.State == fleet.Ready || d.State == fleet.Modified || d.State == fleet.OutOfSync {
		d.State, d.Message = fleet.OutOfSync, why
	}
	return d
}

// Uncomputable returns a deployment that could not be computed, and why. A release that runs
// there stays unchanged.
func Uncomputable(d Deployment, why string) Deployment {
	d.State, d.Message = fleet.ErrApplied, why
	return d
}

// Pending returns a deployment that does not exist yet, and what it waits for.
func Pending(d Deployment, why string) Deployment {
	d.State, d.Message = fleet.Pending, why
	return d
}
