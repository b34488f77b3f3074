// Package monitor makes a snapshot of a fleet from its objects, with a diagnosis of each fault
// that the objects show, and compares snapshots.
//
// The format is that of the command fleet monitor of rancher/fleet v0.16: one JSON object on one
// line, with the same names of fields. Keys that the reference does not have are additions.
package monitor

import "time"

// A Snapshot is the state of a fleet at one moment. It has no data of Secrets.
type Snapshot struct {
	// Timestamp is the time of the snapshot, in RFC 3339 and UTC.
	Timestamp         string          `json:"timestamp"`
	Controller        []Process       `json:"controller,omitempty"`
	GitRepos          []GitRepo       `json:"gitrepos,omitempty"`
	Bundles           []Bundle        `json:"bundles,omitempty"`
	BundleDeployments []Deployment    `json:"bundledeployments,omitempty"`
	Contents          []Content       `json:"contents,omitempty"`
	Clusters          []Cluster       `json:"clusters,omitempty"`
	ClusterGroups     []ClusterGroup  `json:"clustergroups,omitempty"`
	BundleSecrets     []Secret        `json:"bundleSecrets,omitempty"`
	OrphanedSecrets   []Secret        `json:"orphanedSecrets,omitempty"`
	ContentIssues     []ContentIssue  `json:"contentIssues,omitempty"`
	APIConsistency    *APIConsistency `json:"apiConsistency,omitempty"`
	RecentEvents      []Event         `json:"recentEvents,omitempty"`
	Diagnostics       *Diagnostics    `json:"diagnostics,omitempty"`
	// Unread lists what could not be read. The reference does not have it.
	Unread []Unread `json:"unread,omitempty"`
}

// An Object names an object of a namespace.
type Object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Issue says in a diagnosis what is wrong. The reference does not have it.
	Issue string `json:"issue,omitempty"`
}

// A Removal is what keeps an object that is being deleted.
type Removal struct {
	DeletionTimestamp *string  `json:"deletionTimestamp,omitempty"`
	Finalizers        []string `json:"finalizers,omitempty"`
}

// A Readiness is the condition Ready of an object.
type Readiness struct {
	Ready        bool   `json:"ready"`
	ReadyMessage string `json:"readyMessage,omitempty"`
}

// A Process is a pod of the manager.
type Process struct {
	Name      string `json:"name"`
	Restarts  int32  `json:"restarts"`
	Status    string `json:"status"`
	StartTime string `json:"startTime,omitempty"`
}

// A GitRepo is what a snapshot has of a GitRepo.
type GitRepo struct {
	Object
	Readiness
	Generation          int64         `json:"generation"`
	ObservedGeneration  int64         `json:"observedGeneration,omitempty"`
	Commit              string        `json:"commit,omitempty"`
	PollingCommit       string        `json:"pollingCommit,omitempty"`
	WebhookCommit       string        `json:"webhookCommit,omitempty"`
	LastPollingTime     *time.Time    `json:"lastPollingTime,omitempty"`
	PollingInterval     time.Duration `json:"pollingInterval,omitempty"` // in nanoseconds; 0: not set
	ForceSyncGeneration int64         `json:"forceSyncGeneration,omitempty"`
}

// A Bundle is what a snapshot has of a Bundle.
type Bundle struct {
	Object
	Removal
	Readiness
	UID                 string            `json:"uid"`
	Generation          int64             `json:"generation"`
	ObservedGeneration  int64             `json:"observedGeneration,omitempty"`
	Commit              string            `json:"commit,omitempty"`
	RepoName            string            `json:"repoName,omitempty"`
	Labels              map[string]string `json:"labels,omitempty"`
	ForceSyncGeneration int64             `json:"forceSyncGeneration,omitempty"`
	ResourcesSHA256Sum  string            `json:"resourcesSHA256Sum,omitempty"`
	SizeBytes           *int64            `json:"sizeBytes,omitempty"` // of its JSON without status
	ErrorMessage        string            `json:"errorMessage,omitempty"`
}

// A Deployment is what a snapshot has of a BundleDeployment.
type Deployment struct {
	Object
	Removal
	Readiness
	DeploymentVersions
	UID             string            `json:"uid"`
	Generation      int64             `json:"generation"`
	Commit          string            `json:"commit,omitempty"`
	ErrorMessage    string            `json:"errorMessage,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	BundleName      string            `json:"bundleName,omitempty"`
	BundleNamespace string            `json:"bundleNamespace,omitempty"`
}

// DeploymentVersions are the versions of a BundleDeployment.
type DeploymentVersions struct {
	ForceSyncGeneration int64  `json:"forceSyncGeneration,omitempty"`
	SyncGeneration      *int64 `json:"syncGeneration,omitempty"`
	DeploymentID        string `json:"deploymentID,omitempty"`
	StagedDeploymentID  string `json:"stagedDeploymentID,omitempty"`
	AppliedDeploymentID string `json:"appliedDeploymentID,omitempty"`
}

// A Content is what a snapshot has of a Content.
type Content struct {
	Removal
	Name string `json:"name"`
	Size int64  `json:"size,omitempty"` // bytes as they are stored
	// ReferenceCount is the number of BundleDeployments that use it, as far as they could be read.
	ReferenceCount int `json:"referenceCount,omitempty"`
}

// A Cluster is what a snapshot has of a Cluster.
type Cluster struct {
	Object
	Readiness
	AgentNamespace         string  `json:"agentNamespace,omitempty"`
	AgentLastSeen          *string `json:"agentLastSeen,omitempty"`
	AgentLastSeenAge       string  `json:"agentLastSeenAge,omitempty"`
	BundleDeployments      int     `json:"bundleDeployments,omitempty"`
	ReadyBundleDeployments int     `json:"readyBundleDeployments,omitempty"`
}

// A ClusterGroup is what a snapshot has of a ClusterGroup.
type ClusterGroup struct {
	Object
	ClusterCount int    `json:"clusterCount"`
	Selector     string `json:"selector,omitempty"`
}

// A Secret is the metadata of a Secret that Fleet wrote for a Bundle or a BundleDeployment.
type Secret struct {
	Object
	Removal
	Type      string `json:"type"`
	Commit    string `json:"commit,omitempty"`
	OwnerKind string `json:"ownerKind,omitempty"`
	OwnerName string `json:"ownerName,omitempty"`
	OwnerUID  string `json:"ownerUID,omitempty"`
}

// A ContentIssue is a BundleDeployment whose Content is missing or being deleted.
type ContentIssue struct {
	Namespace                string   `json:"namespace"`
	Name                     string   `json:"name"`
	ContentName              string   `json:"contentName,omitempty"`
	StagedContentName        string   `json:"stagedContentName,omitempty"`
	AppliedContentName       string   `json:"appliedContentName,omitempty"`
	ContentExists            bool     `json:"contentExists,omitempty"`
	ContentDeletionTimestamp *string  `json:"contentDeletionTimestamp,omitempty"`
	StagedContentExists      *bool    `json:"stagedContentExists,omitempty"`
	AppliedContentExists     *bool    `json:"appliedContentExists,omitempty"`
	Issues                   []string `json:"issues"`
}

// An APIConsistency compares the versions of a list that was read several times.
type APIConsistency struct {
	// Consistent is false if a later answer was older than an earlier one.
	Consistent bool     `json:"consistent"`
	Versions   []string `json:"versions"`
}

// An Event is an event about an object of Fleet.
type Event struct {
	Namespace     string `json:"namespace"`
	Type          string `json:"type"`
	Reason        string `json:"reason"`
	Message       string `json:"message"`
	InvolvedKind  string `json:"involvedKind"`
	InvolvedName  string `json:"involvedName"`
	Count         int32  `json:"count"`
	LastTimestamp string `json:"lastTimestamp,omitempty"`
}

// An Unread is a list that could not be read. Nothing is diagnosed that needs it.
type Unread struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"` // empty: all that were asked for
	// Cause is "right" if the user may not read it, "scope" if the user may read only some
	// namespaces, "failure" otherwise.
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

// Causes of Unread.
const (
	CauseRight   = "right"
	CauseScope   = "scope"
	CauseFailure = "failure"
)
