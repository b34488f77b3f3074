package v1alpha1

// BundleState is the state of one deployment, or the worst of several.
type BundleState string

// The seven states of a deployment, from worst to best.
const (
	// ErrApplied: the agent could not apply it.
	ErrApplied BundleState = "ErrApplied"
	// WaitApplied: the agent has not applied it yet.
	WaitApplied BundleState = "WaitApplied"
	// Modified: applied and ready, but objects were changed by others.
	Modified BundleState = "Modified"
	// OutOfSync: a change is held back.
	OutOfSync BundleState = "OutOfSync"
	// Pending: the cluster should get a deployment and has none yet.
	Pending BundleState = "Pending"
	// NotReady: applied, but objects are not ready.
	NotReady BundleState = "NotReady"
	// Ready: nothing is wrong.
	Ready BundleState = "Ready"
)

// States lists the seven states of a deployment, from worst to best.
var States = []BundleState{ErrApplied, WaitApplied, Modified, OutOfSync, Pending, NotReady, Ready}

// Rank is 7 for the worst state, 1 for Ready, and 0 for a word that is no
// state of a deployment.
func (s BundleState) Rank() int {
	for i, state := range States {
		if s == state {
			return len(States) - i
		}
	}
	return 0
}

// Display states beyond those of a deployment.
const (
	// Offline is the display state of a Cluster whose agent missed its
	// check-ins.
	Offline = "Offline"
	// WaitCheckIn is the display state of a Cluster whose agent never checked
	// in.
	WaitCheckIn = "WaitCheckIn"
	// GitUpdating is the display state of a GitRepo that is being read.
	GitUpdating = "GitUpdating"
)

// States of single objects in status.resources, beyond those of a deployment.
const (
	ResourceMissing  = "Missing"
	ResourceOrphaned = "Orphaned"
	ResourceUnknown  = "Unknown"
)

// Condition types. docs/architecture.md says who writes which.
const (
	// ConditionReady: all is as it should be. On every kind with a status.
	ConditionReady = "Ready"
	// ConditionAccepted: the spec can be acted on.
	ConditionAccepted = "Accepted"
	// ConditionGitPolling: the repository was reached.
	ConditionGitPolling = "GitPolling"
	// ConditionReconciling: work is under way.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: work cannot go on without a change.
	ConditionStalled = "Stalled"
	// ConditionDeployed: the last attempt to deploy went through.
	ConditionDeployed = "Deployed"
	// ConditionInstalled: the release is installed.
	ConditionInstalled = "Installed"
	// ConditionMonitored: the objects of the release could be looked at.
	ConditionMonitored = "Monitored"
	// ConditionContested: another field manager keeps undoing the agent's
	// corrections. The message says who, which field, since when, and when the
	// agent tries again. The condition is there only as long as that is so.
	ConditionContested = "Contested"
	// ConditionWithdrawn: the agent answers an order to uninstall; the message
	// is the id of the order.
	ConditionWithdrawn = "Withdrawn"
	// ConditionWithdrawing: deployments are being withdrawn, and why.
	ConditionWithdrawing = "Withdrawing"
	// ConditionWaiting: versions are held back, or missing deployments not made
	// yet, and what they wait for. It is there only as long as that is so.
	ConditionWaiting = "Waiting"
	// ConditionDeletionHeld: a change would remove more than it may without being
	// approved. It is there only as long as that is so.
	ConditionDeletionHeld = "DeletionHeld"
	// ConditionDeletionBudget: False on a GitRepo where the deletion budget of its
	// workspace cannot be read and therefore does not count. It is there only as long as
	// that is so.
	ConditionDeletionBudget = "DeletionBudget"
	// ConditionValuesRendered: False on a Bundle, and on its GitRepo, where templates of
	// values are not rendered for clusters, since these have no label. It is there only as
	// long as that is so.
	ConditionValuesRendered = "ValuesRendered"
	// ConditionProcessed: namespace and status of a Cluster or ClusterGroup are
	// in order.
	ConditionProcessed = "Processed"
	// ConditionConnected: the agent checks in.
	ConditionConnected = "Connected"
	// ConditionImported: the manager installed the agent.
	ConditionImported = "Imported"
	// ConditionReconciled: the agent has the settings that the Cluster asks for.
	ConditionReconciled = "Reconciled"
	// ConditionDuplicateIdentity: two agents check in with one identity.
	ConditionDuplicateIdentity = "DuplicateIdentity"
	// ConditionRegistrationWaiting: another agent asks for this Cluster, and a
	// person has to accept it. It is there only as long as that is so.
	ConditionRegistrationWaiting = "RegistrationWaiting"
	// ConditionCredential: there is something to know about the credential of the
	// agent. It is there only as long as that is so, and False.
	ConditionCredential = "Credential"
	// ConditionMoving: the Cluster moves to another workspace, or comes from one. It
	// is there only as long as that is so.
	ConditionMoving = "Moving"
	// ConditionPolled: the Helm repository was asked for versions.
	ConditionPolled = "Polled"
	// ConditionImageSynced: results of image scans were committed.
	ConditionImageSynced = "ImageSynced"
	// ConditionImageScanned: the registry was asked for tags.
	ConditionImageScanned = "ImageScanned"
)

// Reasons of conditions and events. A reason that only one package gives is
// named there.
const (
	// ReasonError is the reason of a failure without a better word.
	ReasonError = "Error"
	// ReasonSucceeded is the reason of a condition that holds.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: it is on its way.
	ReasonProgressing = "Progressing"
	// ReasonSwitchedOff: a kind that this installation does not act on.
	ReasonSwitchedOff = "SwitchedOff"
	// ReasonNotImplemented: a kind or field that this version does not act on.
	ReasonNotImplemented = "NotImplemented"
	// ReasonSuspended: held back by the brake, or by paused.
	ReasonSuspended = "Suspended"
	// ReasonDeferred: held back by a limit, a partition or a window.
	ReasonDeferred = "Deferred"
	// ReasonNoTargets: no cluster matches.
	ReasonNoTargets = "NoTargets"
	// ReasonNoLabels: clusters have no label.
	ReasonNoLabels = "NoLabels"
	// ReasonUninstalled: the release was uninstalled as ordered.
	ReasonUninstalled = "Uninstalled"
	// ReasonOffline: the agent missed its check-ins.
	ReasonOffline = "Offline"
	// ReasonAgentTrouble: the agent checks in, and cannot work in its own cluster.
	ReasonAgentTrouble = "AgentTrouble"
	// ReasonNeverSeen: the agent never checked in.
	ReasonNeverSeen = "NeverSeen"
	// ReasonManagerBehind: the manager asks for what the agent knows as past.
	ReasonManagerBehind = "ManagerBehind"
	// ReasonChangedBack: another field manager undoes the agent's corrections.
	ReasonChangedBack = "ChangedBack"
	// ReasonDeletionHeld: what a change would remove waits to be approved.
	ReasonDeletionHeld = "DeletionHeld"
	// ReasonProtected: a protected object was deleted, which waits to be approved.
	ReasonProtected = "Protected"
	// ReasonInvalidSchedule: a Schedule whose windows cannot be computed.
	ReasonInvalidSchedule = "InvalidSchedule"
)

// Reasons of events that users know from elsewhere.
const (
	EventGotNewCommit = "GotNewCommit"
	// EventFailed: the remote does not answer for a GitRepo that is not polled.
	EventFailed = "Failed"
	// EventFailedToCheckCommit: the remote does not answer for a GitRepo that is polled.
	EventFailedToCheckCommit    = "FailedToCheckCommit"
	EventFailedValidatingSecret = "FailedValidatingSecret"
	EventPolicyViolation        = "PolicyViolation"
	// EventWebhookCommitNotVisible: the repository does not show the commit that a webhook
	// announced.
	EventWebhookCommitNotVisible = "WebhookCommitNotVisible"
)
