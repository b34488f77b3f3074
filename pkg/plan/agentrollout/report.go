package agentrollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Reasons of the condition Reconciled.
const (
	ReasonSettings = "InvalidAgentSettings" // a wish that cannot be fulfilled
	ReasonTaken    = "BundleNameTaken"      // another Bundle has the name of the agent's
	ReasonMoving   = "AgentElsewhere"       // the agent lives in another namespace than it should
)

// Reported returns the status of a Cluster whose agent's Bundle says what the Cluster asks
// for: digests of those wishes, as scripts and Rancher read them. A wish for nothing has no
// digest.
func Reported(c *fleet.Cluster) fleet.ClusterStatus {
	out := *c.Status.DeepCopy()
	s := c.Spec
	out.AgentEnvVarsHash = wishHash(s.AgentEnvVars, len(s.AgentEnvVars) == 0)
	out.AgentTolerationsHash = wishHash(s.AgentTolerations, len(s.AgentTolerations) == 0)
	out.AgentAffinityHash = wishHash(s.AgentAffinity, s.AgentAffinity == nil)
	out.AgentResourcesHash = wishHash(s.AgentResources, s.AgentResources == nil)
	custom := s.AgentSchedulingCustomization
	out.AgentSchedulingCustomizationHash = wishHash(custom, custom == nil || *custom == fleet.AgentSchedulingCustomization{})
	out.AgentPrivateRepoURL = s.PrivateRepoURL
	out.AgentHostNetwork = s.HostNetwork != nil && *s.HostNetwork
	return out
}

// wishHash is the hex sha224 of a field as JSON, as rancher/fleet has it.
func wishHash(field any, nothing bool) string {
	if nothing {
		return ""
	}
	text, err := json.Marshal(field)
	if err != nil { // these types always can be
		return ""
	}
	sum := sha256.Sum224(text)
	return hex.EncodeToString(sum[:])
}

// Reconciled returns the condition of a Cluster whose agent has the settings that it asks
// for, or of one that cannot have them, for a reason in words. note is said of one that
// has.
func Reconciled(c *fleet.Cluster, reason, message, note string) fleet.Condition {
	cond := fleet.Condition{
		Type: fleet.ConditionReconciled, Status: corev1.ConditionTrue, Message: condition.Message(note),
		ObservedGeneration: c.Generation,
	}
	if reason != "" {
		cond.Status, cond.Reason, cond.Message = corev1.ConditionFalse, reason, condition.Message(message)
	}
	return cond
}

// Manages reports whether the manager updates the agent of a Cluster: no other program
// does, the agent is neither switched off nor about to be removed, and the manager knows
// where it lives.
func (m Manager) Manages(c *fleet.Cluster) bool {
	switch {
	case m.Settings.AgentsUnmanaged, withdrawal.IsDeleting(c), c.Labels[fleet.LabelNonManagedAgent] != "",
		c.Labels[fleet.LabelClusterManagement] != "", m.local(c) && m.Settings.Bootstrap.LocalAgentDisabled:
		return false
	}
	return installed(c) || c.Status.Agent.Namespace != ""
}

// HoldReason reports why the agent of a Cluster must not be changed now, with a reason
// for its condition where a person has to do something. Both are empty where it
// may be changed.
func (m Manager) HoldReason(c *fleet.Cluster) (reason, why string) {
	at := c.Status.Agent.Namespace
	if err := Check(c); err != nil {
		return ReasonSettings, err.Error()
	}
	switch {
	case at != "" && at != m.namespace(c) && !installed(c):
		return ReasonMoving, fmt.Sprintf("the agent lives in namespace %q, not in %q: install its chart there, or set agentNamespace to %[1]q", at, m.namespace(c))
	case at != "" && at != m.namespace(c):
		return "", fmt.Sprintf("the agent moves from namespace %q to %q", at, m.namespace(c))
	case c.Spec.Paused:
		return "", "the Cluster is paused"
	case c.Status.Scheduled && !c.Status.ActiveSchedule:
		return "", "its schedule lets no change through now"
	}
	return "", ""
}

// Observe returns a Cluster as a member of the fleet, with the Bundle of its agent; nil
// where it has none.
func (m Manager) Observe(c *fleet.Cluster, b *fleet.Bundle) Member {
	out := Member{
		Key: c.Namespace + "/" + c.Name, First: m.local(c),
		Version: c.Status.Agent.Version, Instance: c.Status.Agent.Instance,
		Joined:   c.Status.Agent.Namespace != "",
		NotReady: c.Status.Summary.DesiredReady - c.Status.Summary.Ready,
	}
	if next := c.Status.Agent.NextCheckIn; next != nil {
		out.Next = next.Time
	}
	_, out.Held = m.HoldReason(c)
	connected := condition.Find(c.Status.Conditions, fleet.ConditionConnected)
	out.Online = out.Joined && (connected == nil || connected.Status == corev1.ConditionTrue)
	if b == nil {
		return out
	}
	out.Has = ParseBuild(b.Annotations[AnnotationBuild])
	out.Custom = b.Annotations[AnnotationOwn] != m.SettingsDigest(c)
	out.Move = ParseMove(b.Annotations[AnnotationMove])
	s := b.Status.Summary
	out.Applied = b.Status.ObservedGeneration >= b.Generation && s.DesiredReady == 1 && s.Ready == 1
	if !out.Applied && len(s.NonReadyResources) > 0 {
		out.Trouble = s.NonReadyResources[0].Message
	}
	return out
}

// NeedsDeploymentCheck reports whether an agent looks well since it was moved, so that its
// deployment has to be looked at itself: the status of a Bundle may be a moment
// behind.
func (m Member) NeedsDeploymentCheck() bool {
	return m.Move != nil && !m.Move.Settled && m.missingForSuccess() == ""
}

// IsDeployed reports whether the deployment of an agent is what its Bundle says, was
// carried out by the agent, and is Ready.
func IsDeployed(b *fleet.Bundle, bd *fleet.BundleDeployment) bool {
	return Ordered(b, bd) && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID && bd.Status.Ready
}

// Ordered reports whether the deployment of an agent is what its Bundle says.
func Ordered(b *fleet.Bundle, bd *fleet.BundleDeployment) bool {
	id, _, _ := strings.Cut(bd.Spec.DeploymentID, ":")
	return id == b.Annotations[AnnotationContent]
}

// ForeignReason reports why a Bundle that has the name of an agent's must be left alone;
// empty: it is that of the agent, by this manager or by an earlier one.
func ForeignReason(b *fleet.Bundle) string {
	for _, label := range []string{fleet.LabelRepoName, fleet.LabelHelmOpName} {
		if owner := b.Labels[label]; owner != "" {
			return fmt.Sprintf("Bundle %s/%s belongs to %q, so the agent cannot be updated: give that bundle another name", b.Namespace, b.Name, owner)
		}
	}
	if b.Labels[LabelBundle] == "true" {
		return ""
	}
	for _, r := range b.Spec.Resources {
		if r.Name == manifestName {
			return ""
		}
	}
	return fmt.Sprintf("Bundle %s/%s was not made by Fleet, so the agent cannot be updated: give it another name", b.Namespace, b.Name)
}
