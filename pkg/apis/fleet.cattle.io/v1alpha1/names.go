package v1alpha1

import "time"

// prefix is what all labels and annotations of Fleet begin with.
const prefix = "fleet.cattle.io/"

// Labels.
const (
	// LabelRepoName is the GitRepo that owns a Bundle, BundleDeployment,
	// ImageScan or Secret of values.
	LabelRepoName = prefix + "repo-name"
	// LabelHelmOpName is the HelmOp that owns a Bundle or BundleDeployment.
	LabelHelmOpName = prefix + "fleet-helm-name"
	// LabelCommit is the commit that last changed a bundle.
	LabelCommit = prefix + "commit"
	// LabelBundleName and LabelBundleNamespace are the Bundle of a
	// BundleDeployment.
	LabelBundleName      = prefix + "bundle-name"
	LabelBundleNamespace = prefix + "bundle-namespace"
	// LabelCluster and LabelClusterNamespace are the Cluster of a
	// BundleDeployment. LabelCluster is also on Clusters and credentials made
	// by registration.
	LabelCluster          = prefix + "cluster"
	LabelClusterNamespace = prefix + "cluster-namespace"
	// LabelContentName is the Content that a BundleDeployment uses.
	LabelContentName = prefix + "content-name"
	// LabelContentOf on a Content that is one part of a larger one is the name of
	// that one's index.
	LabelContentOf = prefix + "content-of"
	// LabelReleasePartOf is the Helm release of a Secret that holds a part of one
	// of its records; LabelAgentNamespace beside it is where its agent lives.
	LabelReleasePartOf  = prefix + "release-part-of"
	LabelAgentNamespace = prefix + "agent-namespace"
	// LabelManaged is "true" on what Fleet made and may clean up.
	LabelManaged = prefix + "managed"
	// LabelBundleDeployment is the BundleDeployment that a downstream copy of a
	// Secret or ConfigMap belongs to.
	LabelBundleDeployment = prefix + "bundledeployment"
	// LabelInternalSecret is "true" on copies of credentials.
	LabelInternalSecret = prefix + "bundle-internal-secret"
	// LabelCarried is "true" on the copies that a manager makes in the namespace
	// of a cluster of what deployments take along: downstreamResources, and
	// credentials for charts.
	LabelCarried = prefix + "carried"
	// LabelDownstreamResource, "true" on a Secret or ConfigMap, lets bundles of its
	// namespace take it along, where the manager requires that.
	LabelDownstreamResource = prefix + "downstream-resource"
	// LabelBucket is the bucket of a cluster, on its BundleDeployments: two hex
	// digits.
	LabelBucket = prefix + "bucket"
	// LabelOwnerBucket is the bucket of a bundle's owner, on Bundles and
	// BundleDeployments: two hex digits.
	LabelOwnerBucket = prefix + "owner-bucket"
	// LabelAdminNamespace on a Bundle or BundleDeployment says that an
	// administrator has set its target namespace (GitRepo.spec.targetNamespace),
	// and not fleet.yaml. It is no option, so that it changes no deployment id;
	// whatever its value is, it counts.
	LabelAdminNamespace = prefix + "admin-namespace"
	// LabelGroup is the ClusterGroup of a Cluster that joined by a token of that
	// group, where the group was made with the token. Agents cannot ask for it.
	LabelGroup = prefix + "group"
	// LabelManagerID is the installation id of the manager that made a
	// cluster-scoped or shared object.
	LabelManagerID = prefix + "manager-id"
	// LabelWorkspace is "true" on namespaces that hold Clusters, registration tokens
	// or GitRepos, or did. The API server protects Secrets in them, see the value
	// admission.secrets of the chart.
	LabelWorkspace = prefix + "workspace"
	// LabelRegistrationToken is the token that a ClusterRegistration used.
	LabelRegistrationToken = prefix + "registration-token"
	// LabelClusterManagement, not empty, says that another controller, such as
	// Rancher, manages the agent of a Cluster.
	LabelClusterManagement = prefix + "cluster-management"
	// LabelNonManagedAgent keeps the agent of a Cluster from being updated.
	LabelNonManagedAgent = prefix + "non-managed-agent"
	// LabelCreatedByAgentPod is the one reserved label that an agent may ask
	// for when it registers.
	LabelCreatedByAgentPod = prefix + "created-by-agent-pod"
	// LabelCreatedByUserID is the user who made a GitRepo or HelmOp; the Bundles and
	// deployments of a GitRepo have it too. Logs show it as userID.
	LabelCreatedByUserID = prefix + "created-by-user-id"
	// LabelCreatedByDisplayName is what older versions of Rancher wrote beside the id. It
	// holds the name of a person, and controllers remove it.
	LabelCreatedByDisplayName = prefix + "created-by-display-name"
	// LabelShardRef is the shard that works on an object.
	LabelShardRef = prefix + "shard-ref"
	// LabelAgentNode is "true" on nodes that agents prefer.
	LabelAgentNode = prefix + "agent"
	// LabelDisplayName is the display name that Rancher gave a Cluster.
	LabelDisplayName = "management.cattle.io/cluster-display-name"
	// LabelManagementCluster on a Cluster is the name of Rancher's management
	// Cluster, which all clusters that Rancher knows have.
	LabelManagementCluster = "management.cattle.io/cluster-name"
	// LabelObjectSetHash is the digest of the set that an object belongs to.
	LabelObjectSetHash = "objectset.rio.cattle.io/hash"
	// LabelPrune, "false" on a live object, keeps it from being reported as
	// extra.
	LabelPrune = "objectset.rio.cattle.io/prune"
)

// Annotations.
const (
	// AnnotationWithdrawn on a BundleDeployment is the order to uninstall it;
	// its value is the id of the order.
	AnnotationWithdrawn = prefix + "withdrawn"
	// AnnotationWindows on a BundleDeployment is the change windows of its cluster, in the form
	// of package plan/schedule. Without, the cluster is always open.
	AnnotationWindows = prefix + "windows"
	// AnnotationOpenUntil on a BundleDeployment opens it outside of the change windows of its
	// cluster. Its value is a time (RFC 3339) at most 24 hours ahead, a space and a reason.
	AnnotationOpenUntil = prefix + "open-until"
	// AnnotationOutsideWindows on a Schedule says what agents do outside of its windows. With
	// value "freeze" they correct and report nothing either, as those of rancher/fleet.
	AnnotationOutsideWindows = prefix + "outside-windows"
	// AnnotationManager on a Cluster is "<id>/<epoch>/<protocol>" of its
	// manager.
	AnnotationManager = prefix + "manager"
	// AnnotationCheckInInterval on a Cluster is how often its agent checks in, as
	// its manager wishes: a duration, 1m30s. Agents read it in the answer to a
	// check-in; one that was given an interval of its own keeps that.
	AnnotationCheckInInterval = prefix + "check-in-interval"
	// AnnotationCredential on a Cluster is the credential that its agent is to
	// use: which account's, and how a token of it is fetched. It holds no secret.
	// Without it the agent uses what it was granted when it registered.
	AnnotationCredential = prefix + "credential"
	// AnnotationRotate on a Cluster is a user's order to give its agent another
	// credential; each order has a value of its own. The manager removes it when
	// the agent uses the new credential and the old one is void.
	AnnotationRotate = prefix + "rotate-credential"
	// AnnotationUninstall on a Cluster is a user's order to withdraw at once
	// everything that is deployed to it, except its agent; each order has a value
	// of its own. When the user removes the annotation, everything is deployed
	// again.
	AnnotationUninstall = prefix + "uninstall"
	// AnnotationRenews on a ServiceAccount is the account of an agent whose tokens
	// it may fetch; it may do nothing else.
	AnnotationRenews = prefix + "renews"
	// AnnotationInputHash on a BundleDeployment is the digest of all that it
	// was made from.
	AnnotationInputHash = prefix + "input-hash"
	// AnnotationAbandon on a BundleDeployment gives up an uninstall that fails.
	AnnotationAbandon = prefix + "abandon"
	// AnnotationPrune on Bundles marks those that their repository does not yield
	// any more; the same value on its GitRepo asks for all that are so marked to
	// be removed.
	AnnotationPrune = prefix + "prune"
	// AnnotationDeletionBudget on a GitRepo, or on the namespace of a workspace,
	// is how much one change may remove without being approved: "20%", "15", or
	// "off" for anything.
	AnnotationDeletionBudget = prefix + "deletion-budget"
	// AnnotationDeletionHeld on a GitRepo or Bundle lists what a change would
	// remove that waits to be approved. Its first word is the list's hash. On the
	// namespace of a workspace it lists what was deployed by Bundles that are deleted
	// because their namespace or their kind is.
	AnnotationDeletionHeld = prefix + "deletion-held"
	// AnnotationApproveDeletion on a GitRepo, a Bundle or the namespace of a workspace
	// is the hash of the list that a person has approved. On a namespace it may be
	// ApproveKeep instead: the Bundles go, and what they deployed stays.
	AnnotationApproveDeletion = prefix + "approve-deletion"
	// ApproveKeep is a value of AnnotationApproveDeletion.
	ApproveKeep = "keep"
	// AnnotationProtect on a GitRepo, Bundle or Cluster holds its deletion until a
	// person approves it. ProtectNot takes the protection off; any other value that is
	// not empty protects. The Bundles of a GitRepo have its protection, unless they
	// have this annotation themselves.
	AnnotationProtect = prefix + "protect"
	// ProtectNot is a value of AnnotationProtect. The manager writes it on what a
	// person has approved.
	ProtectNot = "false"
	// AnnotationKept on a BundleDeployment says that a person let its Bundle go and
	// keeps what it deployed: the manager does not order to remove it.
	AnnotationKept = prefix + "kept"
	// AnnotationContent on a Bundle without resources is the name of the Content
	// that holds them.
	AnnotationContent = prefix + "content"
	// AnnotationContentLargest beside it names the largest files and their
	// sizes, for people whose agents cannot read a content in parts.
	AnnotationContentLargest = prefix + "content-largest"
	// AnnotationContentChunks on a Content is in how many parts it is kept. Such
	// an index is empty itself; its parts are the Contents "<name>-0",
	// "<name>-1" and so on, which put together are its content.
	AnnotationContentChunks = prefix + "content-chunks"
	// AnnotationHelmRelease is Helm's mark on what belongs to a release: its name.
	AnnotationHelmRelease = "meta.helm.sh/release-name"
	// AnnotationReleaseBody on the Secret of a Helm record is "<digest>/<parts>"
	// of what is kept of it in further Secrets, because it is larger than one.
	AnnotationReleaseBody = prefix + "release-body"
	// AnnotationContentRenewed on a Content that a Bundle is about to name is the
	// time of that write: a deletion that was decided before it fails with a
	// conflict.
	AnnotationContentRenewed = prefix + "content-renewed"
	// AnnotationCarried on a BundleDeployment is a digest of the data of what it
	// takes along.
	AnnotationCarried = prefix + "carried"
	// AnnotationPull on a Bundle asks the manager to pull its charts; its value
	// differs between sets of charts. AnnotationPulled is the same value when
	// AnnotationContent names them, and AnnotationPullFailed begins with it and
	// says why they could not be pulled.
	AnnotationPull       = prefix + "pull"
	AnnotationPulled     = prefix + "pulled"
	AnnotationPullFailed = prefix + "pull-failed"
	// AnnotationCRDRevision on our CustomResourceDefinitions is the number of
	// their revision.
	AnnotationCRDRevision = prefix + "crd-revision"
	// AnnotationCluster and AnnotationClusterNamespace on a namespace are the
	// Cluster that it belongs to.
	AnnotationCluster          = prefix + "cluster"
	AnnotationClusterNamespace = prefix + "cluster-namespace"
	// AnnotationClusterRegistration and AnnotationClusterRegistrationNamespace
	// on a ServiceAccount are the request that it was made for.
	AnnotationClusterRegistration          = prefix + "cluster-registration"
	AnnotationClusterRegistrationNamespace = prefix + "cluster-registration-namespace"
	// AnnotationAcceptRegistration on a Cluster is the name of the
	// ClusterRegistration that a person has accepted: where registration.reclaim
	// is approve, no other agent gets a Cluster that has had one. The manager
	// removes it once it has granted that request. A request that waits has the
	// Cluster in status.clusterName and is not granted.
	AnnotationAcceptRegistration = prefix + "accept-registration"
	// AnnotationTokenGroup on a ClusterRegistrationToken is the ClusterGroup, in
	// the same namespace, that the manager puts new Clusters into which join by
	// this token: it gives them the labels that the group's matchLabels ask for.
	// On a Cluster it is the group whose token brought it in: agents with a token of
	// another group wait to be accepted.
	AnnotationTokenGroup = prefix + "token-group"
	// AnnotationPausedBy, AnnotationPausedAt (RFC 3339) and AnnotationPauseReason on a
	// GitRepo, Bundle or Cluster are who set spec.paused, when and why. fleet suspend
	// writes them, fleet resume removes them.
	AnnotationPausedBy    = prefix + "paused-by"
	AnnotationPausedAt    = prefix + "paused-at"
	AnnotationPauseReason = prefix + "pause-reason"
	// AnnotationVersion on the manager's ConfigMap is the version that it
	// belongs to.
	AnnotationVersion = prefix + "version"
	// AnnotationCrashes on the lease of a manager's process says when the process has
	// failed, or has followed one that had not given the lease back: at most 10 times.
	AnnotationCrashes = prefix + "crashes"
	// AnnotationImplementation on the manager's ConfigMap names the
	// implementation that it was written for. rancher/fleet writes none.
	AnnotationImplementation = prefix + "implementation"
	// AnnotationRegexMigrated: a manager has set helmRepoURLRegex of this GitRepo.
	AnnotationRegexMigrated = prefix + "helm-regex-auto-migrated"
	// AnnotationClientSecretHash, AnnotationHelmSecretHash and
	// AnnotationHelmSecretForPathsHash on a GitRepo are digests of the data of its
	// Secrets, as it was read with them last.
	AnnotationClientSecretHash       = prefix + "client-secret-hash"
	AnnotationHelmSecretHash         = prefix + "helm-secret-hash"
	AnnotationHelmSecretForPathsHash = prefix + "helm-secret-for-paths-hash"
	// AnnotationObjectSetID is the name of the set that an object belongs to.
	AnnotationObjectSetID = "objectset.rio.cattle.io/id"
	// AnnotationHelmResourcePolicy, "keep", makes Helm spare an object.
	AnnotationHelmResourcePolicy = "helm.sh/resource-policy"
)

// Annotations of the chart in a Helm release: what a release remembers.
const (
	ReleaseBundleID       = prefix + "bundle-id"
	ReleaseCommit         = prefix + "commit"
	ReleaseAgentNamespace = prefix + "agent-namespace"
	ReleaseServiceAccount = prefix + "service-account"
	ReleaseKeepResources  = prefix + "keep-resources"
	ReleaseManager        = prefix + "manager"
	ReleaseBundleUID      = prefix + "bundle-uid"
	ReleaseDeploymentID   = prefix + "deployment-id"
	// ReleaseCRDs are the names of the CRDs of the chart's crds folders, which are
	// no part of the release's manifest, divided by commas.
	ReleaseCRDs = prefix + "crds"
)

// Finalizers.
const (
	FinalizerGitRepo  = prefix + "gitrepo-finalizer"
	FinalizerHelmOp   = prefix + "helmop-finalizer"
	FinalizerBundle   = prefix + "bundle-finalizer"
	FinalizerCluster  = prefix + "cluster-finalizer"
	FinalizerSchedule = prefix + "schedule-finalizer"
	// FinalizerBundleDeployment is never set by us, only taken off.
	FinalizerBundleDeployment = prefix + "bundle-deployment-finalizer"
)

// Types of Secrets.
const (
	// SecretTypeBundleValues holds the Helm values of a Bundle and its targets.
	SecretTypeBundleValues = prefix + "bundle-values/v1alpha1"
	// SecretTypeBundleDeployment holds the Helm values of a BundleDeployment.
	SecretTypeBundleDeployment = prefix + "bundle-deployment/v1alpha1"
	// SecretTypeOCIStorage says in which registry resources are kept.
	SecretTypeOCIStorage = prefix + "bundle-oci-storage/v1alpha1"
	// SecretTypeHelmOpsAccess is a copy of the credentials of a HelmOp.
	SecretTypeHelmOpsAccess = prefix + "bundle-helmops-access/v1alpha1"
	// SecretTypeRegistrationValues holds the values of the agent's chart.
	SecretTypeRegistrationValues = prefix + "cluster-registration-values"
	// SecretTypeAgentCredential holds the credentials of an agent.
	SecretTypeAgentCredential = prefix + "agent-credential"
	// SecretTypeReleasePart holds a part of a Helm record.
	SecretTypeReleasePart = prefix + "release-part/v1alpha1"
	// SecretTypeAgentStore is the agent's own record of one deployment.
	SecretTypeAgentStore = prefix + "agent-store/v1alpha1"
)

// Keys of Secrets and ConfigMaps.
const (
	// KeyBundleValues is the key of a bundle's root values; values of targets
	// are under the target's name.
	KeyBundleValues = "values.yaml"
	// KeyValues and KeyStagedValues are the keys of a deployment's values.
	KeyValues       = "values"
	KeyStagedValues = "stagedValues"
	// KeyConfig is the key of the configuration of manager and agent.
	KeyConfig = "config"
	// KeyLabels is the key of the labels in ConfigMapAgentLabels: a map in YAML.
	KeyLabels = "labels"
)

// Field managers. The agent's carries its protocol number.
const (
	FieldManagerController      = "fleet-controller"
	FieldManagerGitJob          = "fleet-gitjob"
	FieldManagerHelmOps         = "fleet-helmops"
	FieldManagerAgentManagement = "fleet-agentmanagement"
	FieldManagerWorkspace       = "fleet-workspace"
	// FieldManagerAgentPrefix is followed by the agent's protocol number.
	FieldManagerAgentPrefix = "fleet-agent-p"
	FieldManagerAgent       = FieldManagerAgentPrefix + "3"
	// FieldManagerRelease is for objects of releases, on every cluster.
	FieldManagerRelease = "fleetagent"
)

// ProtocolVersion is the number of the protocol between manager and agent that
// this version speaks. Both sides work with the lower number of the two. What
// each number adds:
//
//	0  an agent of rancher/fleet: it gives no number
//	1  withdrawal by annotation, the answer to it, the sign of life
//	2  contents in parts (AnnotationContentChunks)
//	3  change windows (AnnotationWindows)
const ProtocolVersion = 3

// ProtocolWindows is the protocol from which on agents know the change windows of their
// cluster. For others the manager sets offSchedule outside of windows.
const ProtocolWindows = 3

// ProtocolContentChunks is the protocol from which on agents read contents that
// are kept in parts.
const ProtocolContentChunks = 2

// CRDRevision is the number of this version's CustomResourceDefinitions. It grows with
// every version whose kinds have gained or lost fields, so that fleet check reports those of
// another version.
const CRDRevision = 2

// Namespaces.
const (
	// NamespaceSystem is where manager and downstream agents run by default.
	NamespaceSystem = "cattle-fleet-system"
	// NamespaceRegistration is where credentials for agents are handed over.
	NamespaceRegistration = "cattle-fleet-clusters-system"
	// NamespaceLocal is the workspace of the manager's own cluster.
	NamespaceLocal = "fleet-local"
	// NamespaceDefault is the workspace of downstream clusters.
	NamespaceDefault = "fleet-default"
	// NamespaceLocalAgent is where the agent of the manager's own cluster runs.
	NamespaceLocalAgent = "cattle-fleet-local-system"
)

// Well-known objects.
const (
	// ConfigMapController holds the configuration of the manager.
	ConfigMapController = "fleet-controller"
	// ConfigMapAgent holds the configuration of an agent.
	ConfigMapAgent = "fleet-agent"
	// ConfigMapAgentLabels holds, in key "labels", those that an agent asks for
	// when it registers, beside the ones of its configuration. It is applied
	// before the agent is, and belongs to no installation of it.
	ConfigMapAgentLabels = "fleet-agent-labels"
	// ConfigMapAgentContact says how it stands between an agent and its manager.
	ConfigMapAgentContact = "fleet-agent-contact"
	// ConfigMapAgentJournal keeps an agent's journal.
	ConfigMapAgentJournal = "fleet-agent-journal"
	// ConfigMapInstallation holds id and epoch of the manager.
	ConfigMapInstallation = "fleet-installation"
	// ConfigMapBrake stops all that is new while its data say so.
	ConfigMapBrake = "fleet-brake"
	// ConfigMapRegexMigrated says that rancher/fleet has set helmRepoURLRegex in all GitRepos.
	ConfigMapRegexMigrated = "fleet-helm-url-regex-migrated"
	// ConfigMapKnownHosts holds the known SSH hosts.
	ConfigMapKnownHosts = "known-hosts"
	// SecretAgent holds the agent's credentials downstream.
	SecretAgent = "fleet-agent"
	// SecretAgentBootstrap holds what an agent needs to register.
	SecretAgentBootstrap = "fleet-agent-bootstrap"
	// SecretGitCredential is the default client secret of GitRepos.
	SecretGitCredential = "gitcredential"
	// SecretWebhook is the Secret in the system namespace that webhooks are verified with.
	SecretWebhook = "gitjob-webhook"
	// SecretOCIStorage is the default registry secret of GitRepos.
	SecretOCIStorage = "ocistorage"
	// ClusterGroupDefault is the group that GitRepos without targets go to.
	ClusterGroupDefault = "default"
	// ClusterLocal is the Cluster of the manager's own cluster.
	ClusterLocal = "local"
)

// Limits and defaults.
const (
	// ReleaseNameLimit is the longest name of a Helm release.
	ReleaseNameLimit = 53
	// StatusListLimit is the longest list of what is not ready in a status.
	StatusListLimit = 10
	// DefaultPollingInterval is how often a repository is asked by default.
	DefaultPollingInterval = 15 * time.Second
	// DefaultReleaseNamespace is the release namespace by default.
	DefaultReleaseNamespace = "default"
)
