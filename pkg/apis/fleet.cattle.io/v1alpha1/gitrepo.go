package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GitRepo is a git repository whose directories are deployed as bundles.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=gitrepos,categories=fleet,shortName=gr
// +kubebuilder:printcolumn:name="Repo",type=string,JSONPath=`.spec.repo`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.status.commit`
// +kubebuilder:printcolumn:name="BundleDeployments-Ready",type=string,JSONPath=`.status.display.readyBundleDeployments`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Paused",type=boolean,priority=1,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GitRepo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which repository is read, and where it goes.
	// +optional
	Spec GitRepoSpec `json:"spec,omitempty"`

	// Status is what has become of it.
	// +optional
	Status GitRepoStatus `json:"status,omitempty"`
}

// GitRepoList is a list of GitRepos.
//
// +kubebuilder:object:root=true
type GitRepoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the GitRepos.
	Items []GitRepo `json:"items"`
}

// GitRepoSpec says which repository is read, and where it goes.
type GitRepoSpec struct {
	// Repo is the URL of the repository: https, http, ssh, or user@host:path.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Repo string `json:"repo"`

	// Branch to follow. Default: master, if there is no revision either.
	// +optional
	Branch string `json:"branch,omitempty"`

	// Revision is a tag or commit to stay at; it goes before branch.
	// +optional
	Revision string `json:"revision,omitempty"`

	// TargetNamespace is forced on every object of all bundles. Default: none.
	// +optional
	TargetNamespace string `json:"targetNamespace,omitempty"`

	// ClientSecretName is the Secret with the credentials for git, in the same
	// namespace. Default: gitcredential, if that exists.
	// +optional
	ClientSecretName string `json:"clientSecretName,omitempty"`

	// HelmSecretName is the Secret with the credentials for charts, in the same
	// namespace.
	// +optional
	HelmSecretName string `json:"helmSecretName,omitempty"`

	// HelmSecretNameForPaths is a Secret with credentials for charts for each
	// path. It goes before helmSecretName.
	// +optional
	HelmSecretNameForPaths string `json:"helmSecretNameForPaths,omitempty"`

	// HelmRepoURLRegex says to which chart URLs the credentials are sent. It
	// has to match from the start. Default: to none.
	// +optional
	HelmRepoURLRegex string `json:"helmRepoURLRegex,omitempty"`

	// CABundle holds the PEM certificates of authorities that the git server is
	// checked against, besides those of the system. In YAML and JSON it is one
	// base64 string of the PEM text (base64 -w0 ca.pem), as in data of a Secret.
	// Default: those of the system alone.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// InsecureSkipTLSverify accepts any certificate. Default: false.
	// +optional
	InsecureSkipTLSverify bool `json:"insecureSkipTLSVerify,omitempty"`

	// Paths are the directories to read, relative to the root, as shell
	// patterns. Default: the root.
	// +optional
	Paths []string `json:"paths,omitempty"`

	// Paused holds changes of all bundles back. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// ServiceAccount is the account that agents impersonate. It goes before
	// that of fleet.yaml, and before those of its targets.
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// Targets select the clusters. Default: those of the cluster group
	// "default".
	// +optional
	Targets []GitTarget `json:"targets,omitempty"`

	// PollingInterval is how often the repository is asked for new commits, at
	// most once a second. Default: 15s, also for 0; 1h while verified webhooks
	// announce the commits.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	// +optional
	PollingInterval *metav1.Duration `json:"pollingInterval,omitempty"`

	// ForceSyncGeneration is raised to read and deploy the same commit again.
	// +optional
	ForceSyncGeneration int64 `json:"forceSyncGeneration,omitempty"`

	// ImageScanInterval is how often results of image scans are committed.
	// Default: 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	// +optional
	ImageScanInterval *metav1.Duration `json:"imageScanInterval,omitempty"`

	// ImageScanCommit says how results of image scans are committed. Default:
	// they are not.
	// +optional
	ImageScanCommit *CommitSpec `json:"imageScanCommit,omitempty"`

	// KeepResources leaves the objects in the clusters when bundles are
	// removed. Default: false.
	// +optional
	KeepResources bool `json:"keepResources,omitempty"`

	// DeleteNamespace deletes the target namespace on the clusters when the
	// last bundle leaves it. Default: false.
	// +optional
	DeleteNamespace bool `json:"deleteNamespace,omitempty"`

	// CorrectDrift is set on all bundles if it is enabled.
	// +optional
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// DisablePolling looks for new commits only when the spec or the Secret of
	// clientSecretName changes, when a webhook announces a commit, and when
	// gitjob starts. Default: false.
	// +optional
	DisablePolling bool `json:"disablePolling,omitempty"`

	// OCIRegistrySecret is the Secret that says in which registry resources are
	// kept, in the same namespace. Default: ocistorage, if that exists.
	// +optional
	OCIRegistrySecret string `json:"ociRegistrySecret,omitempty"`

	// WebhookSecret is the Secret that webhooks are verified with, in the same
	// namespace. It must exist if it is set. Default: the Secret gitjob-webhook
	// in the namespace of Fleet; if that does not exist, webhooks need no
	// signature, which is deprecated.
	// +optional
	WebhookSecret string `json:"webhookSecret,omitempty"`

	// Bundles lists the bundles to make, instead of finding them below paths,
	// which is then ignored.
	// +optional
	Bundles []BundlePath `json:"bundles,omitempty"`
}

// BundlePath is one bundle to make.
type BundlePath struct {
	// Base is the directory of the bundle, relative to the root.
	// +optional
	Base string `json:"base,omitempty"`

	// Options is the file in the format of fleet.yaml, relative to base.
	// Default: fleet.yaml in base, if there is one.
	// +optional
	Options string `json:"options,omitempty"`
}

// CommitSpec says how results of image scans are committed.
type CommitSpec struct {
	// AuthorName is the name of the author.
	// +optional
	AuthorName string `json:"authorName"`

	// AuthorEmail is the address of the author.
	// +optional
	AuthorEmail string `json:"authorEmail"`

	// MessageTemplate is a Go template of the commit message. Default: "Update
	// from image update automation".
	// +optional
	MessageTemplate string `json:"messageTemplate,omitempty"`
}

// GitRepoStatus is what has become of a repository.
type GitRepoStatus struct {
	StatusBase `json:",inline"`

	// ObservedGeneration is the metadata.generation that was worked on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// UpdateGeneration is the forceSyncGeneration that was worked on last.
	// +optional
	UpdateGeneration int64 `json:"updateGeneration,omitempty"`

	// Commit is the commit that was read last.
	// +optional
	Commit string `json:"commit,omitempty"`

	// WebhookCommit is the commit that a webhook announced last; if the
	// repository did not show it in time, the commit that was read.
	// +optional
	WebhookCommit string `json:"webhookCommit,omitempty"`

	// LastWebhookTime is when a webhook announced a commit last.
	// +optional
	LastWebhookTime metav1.Time `json:"lastWebhookTime,omitempty"`

	// PollingCommit is the commit that polling found last.
	// +optional
	PollingCommit string `json:"pollingCommit,omitempty"`

	// GitJobStatus is how reading goes: InProgress, Current, Failed and the
	// other words of kstatus.
	// +optional
	GitJobStatus string `json:"gitJobStatus,omitempty"`

	// LastSyncedImageScanTime is when results of image scans were committed
	// last.
	// +optional
	LastSyncedImageScanTime metav1.Time `json:"lastSyncedImageScanTime,omitempty"`

	// LastPollingTime is when polling last found something else than before.
	// +optional
	LastPollingTime metav1.Time `json:"lastPollingTriggered,omitempty"`

	// Reading is what the last reading has written. It is written after all
	// Bundles of that reading, together with commit. Who wants to know what a
	// commit has changed compares it with the Bundles: they are those of the
	// reading if their digest is the same. Managers that do not know the field
	// leave it out.
	// +optional
	Reading *Reading `json:"reading,omitempty"`
}

// Reading is what one reading of a repository has written.
type Reading struct {
	// Commit that was read.
	Commit string `json:"commit"`

	// Generation is the metadata.generation of the GitRepo that it was read for.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// Complete is false if a bundle could not be made or written. A later reading
	// of the same commit may add it.
	// +optional
	Complete bool `json:"complete,omitempty"`

	// Bundles is how many Bundles the GitRepo has since then. Those that it does
	// not want any more are not counted.
	// +optional
	Bundles int `json:"bundles"`

	// Digest is that of the names of these Bundles and of the commits in their
	// labels: SHA-256, hexadecimal, of one line "<name>=<commit>" for each, by name.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Paths are those of spec.paths that lead to a directory of the repository, or
	// did in an earlier reading.
	// +optional
	Paths []string `json:"paths,omitempty"`

	// Removed are Bundles that the commit does not have any more: the names of
	// at most 20.
	// +optional
	Removed []string `json:"removed,omitempty"`
}
