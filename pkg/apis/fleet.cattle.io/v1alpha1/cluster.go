package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a cluster that bundles are deployed to. Its agent registers it, or
// a person or Rancher creates it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fcl
// +kubebuilder:printcolumn:name="Bundles-Ready",type=string,JSONPath=`.status.display.readyBundles`
// +kubebuilder:printcolumn:name="Last-Seen",type=string,JSONPath=`.status.agent.lastSeen`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Paused",type=boolean,priority=1,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Next-Check-In",type=string,priority=1,JSONPath=`.status.agent.nextCheckIn`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how the cluster is reached and how its agent runs.
	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`

	// Status is how the cluster is doing.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Clusters.
	Items []Cluster `json:"items"`
}

// ClusterSpec says how a cluster is reached and how its agent runs.
type ClusterSpec struct {
	// Paused holds changes of all bundles on this cluster back. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// ClientID is what the agent says it is when it registers. An agent with
	// the id of an existing Cluster gets that Cluster.
	// +optional
	ClientID string `json:"clientID,omitempty"`

	// KubeConfigSecret is the Secret with a kubeconfig, through which the
	// manager installs the agent. Default: the agent registers by itself.
	// +optional
	KubeConfigSecret string `json:"kubeConfigSecret,omitempty"`

	// KubeConfigSecretNamespace is the namespace of that Secret. Default: the
	// Cluster's. Only workspaces and namespaces of Fleet are accepted.
	// +optional
	KubeConfigSecretNamespace string `json:"kubeConfigSecretNamespace,omitempty"`

	// RedeployAgentGeneration is raised to install the agent again.
	// +optional
	RedeployAgentGeneration int64 `json:"redeployAgentGeneration,omitempty"`

	// AgentEnvVars are set on the agent.
	// +optional
	AgentEnvVars []corev1.EnvVar `json:"agentEnvVars,omitempty"`

	// AgentNamespace is the namespace of the agent. Default: the manager's.
	// +optional
	AgentNamespace string `json:"agentNamespace,omitempty"`

	// PrivateRepoURL is put before the name of the agent's image. Default: what
	// is configured for all.
	// +optional
	PrivateRepoURL string `json:"privateRepoURL,omitempty"`

	// TemplateValues are given to the templates in Helm values as
	// .ClusterValues.
	// +optional
	TemplateValues *GenericMap `json:"templateValues,omitempty"`

	// AgentTolerations are added to those of the agent.
	// +optional
	AgentTolerations []corev1.Toleration `json:"agentTolerations,omitempty"`

	// AgentAffinity replaces the affinity of the agent. Default: nodes with
	// label fleet.cattle.io/agent=true are preferred.
	// +optional
	AgentAffinity *corev1.Affinity `json:"agentAffinity,omitempty"`

	// AgentResources are the resources of the agent. Default: requests of 96Mi of
	// memory and 10m of cpu, and a limit of 2Gi of memory; {} for none.
	// +optional
	AgentResources *corev1.ResourceRequirements `json:"agentResources,omitempty"`

	// HostNetwork runs the agent in the network of its node. Default: false.
	// +optional
	HostNetwork *bool `json:"hostNetwork,omitempty"`

	// AgentSchedulingCustomization gives the agent a priority class and a
	// disruption budget. Default: neither.
	// +optional
	AgentSchedulingCustomization *AgentSchedulingCustomization `json:"agentSchedulingCustomization,omitempty"`

	// AgentPullSecrets are the agent's image pull secrets, which must exist
	// downstream. Default: those configured for all, which are copied there.
	// +optional
	AgentPullSecrets *[]corev1.LocalObjectReference `json:"agentPullSecrets,omitempty"`

	// CheckIn is how the agent keeps in touch with its manager. Default: it is
	// always connected. A change takes effect without a restart of the agent.
	// +optional
	CheckIn *ClusterCheckIn `json:"checkIn,omitempty"`
}

// ClusterCheckIn is how an agent keeps in touch with its manager.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'poll') == (has(self.schedule) && size(self.schedule) > 0)",message="schedule and mode poll go together"
type ClusterCheckIn struct {
	// Mode is watch: the agent is always connected, and news reaches it at once;
	// or poll: it connects at the times of the schedule, does what there is to do,
	// and disconnects. Default: watch.
	// +kubebuilder:validation:Enum=watch;poll
	// +optional
	Mode string `json:"mode,omitempty"`

	// Schedule is when an agent with mode poll connects, as CronJobs have it:
	// minute, hour, day of month, month, day of week. It counts with that mode
	// alone, and must be set there.
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// TimeZone of the schedule, for example Europe/Berlin. Default: UTC.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// AgentSchedulingCustomization gives the agent a priority class and a
// disruption budget.
type AgentSchedulingCustomization struct {
	// PriorityClass of the agent. Default: none.
	// +optional
	PriorityClass *PriorityClassSpec `json:"priorityClass,omitempty"`

	// PodDisruptionBudget of the agent. Default: none.
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}

// PriorityClassSpec is the priority class that is made for an agent.
type PriorityClassSpec struct {
	// Value is the priority.
	// +optional
	Value int `json:"value,omitempty"`

	// PreemptionPolicy is PreemptLowerPriority or Never. Default:
	// PreemptLowerPriority.
	// +optional
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// PodDisruptionBudgetSpec is the disruption budget that is made for an agent.
// At most one of its fields may be other than empty or "0".
type PodDisruptionBudgetSpec struct {
	// MinAvailable is a number or a percentage.
	// +optional
	MinAvailable string `json:"minAvailable,omitempty"`

	// MaxUnavailable is a number or a percentage. Default: 0, if minAvailable
	// is not set either.
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}

// ClusterStatus is how a cluster is doing.
type ClusterStatus struct {
	// Conditions describe the state of the cluster.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Namespace holds the cluster's BundleDeployments. Once set it is read from
	// here, never computed.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Summary counts the cluster's deployments by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// ResourceCounts counts the deployed objects by state.
	// +optional
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// ReadyGitRepos is the number of repositories that are ready here.
	// +optional
	ReadyGitRepos int `json:"readyGitRepos"`

	// DesiredReadyGitRepos is the number of repositories deployed here.
	// +optional
	DesiredReadyGitRepos int `json:"desiredReadyGitRepos"`

	// ReadyHelmOps is the number of HelmOps that are ready here.
	// +optional
	ReadyHelmOps int `json:"readyHelmOps"`

	// DesiredReadyHelmOps is the number of HelmOps deployed here.
	// +optional
	DesiredReadyHelmOps int `json:"desiredReadyHelmOps"`

	// AgentEnvVarsHash is the digest of the agentEnvVars that the agent has.
	// +optional
	AgentEnvVarsHash string `json:"agentEnvVarsHash,omitempty"`

	// AgentPrivateRepoURL is the privateRepoURL that the agent has.
	// +optional
	AgentPrivateRepoURL string `json:"agentPrivateRepoURL,omitempty"`

	// AgentHostNetwork is the hostNetwork that the agent has.
	// +optional
	AgentHostNetwork bool `json:"agentHostNetwork,omitempty"`

	// AgentDeployedGeneration is the redeployAgentGeneration that the agent was
	// installed with.
	// +optional
	AgentDeployedGeneration *int64 `json:"agentDeployedGeneration,omitempty"`

	// AgentMigrated is true once the agent no longer runs from an old import.
	// +optional
	AgentMigrated bool `json:"agentMigrated,omitempty"`

	// AgentNamespaceMigrated is true once the agent has left fleet-system.
	// +optional
	AgentNamespaceMigrated bool `json:"agentNamespaceMigrated,omitempty"`

	// CattleNamespaceMigrated is true once the agent is in the namespace that
	// the spec names.
	// +optional
	CattleNamespaceMigrated bool `json:"cattleNamespaceMigrated,omitempty"`

	// AgentAffinityHash is the digest of the agentAffinity that the agent has.
	// +optional
	AgentAffinityHash string `json:"agentAffinityHash,omitempty"`

	// AgentResourcesHash is the digest of the agentResources that the agent
	// has.
	// +optional
	AgentResourcesHash string `json:"agentResourcesHash,omitempty"`

	// AgentTolerationsHash is the digest of the agentTolerations that the agent
	// has.
	// +optional
	AgentTolerationsHash string `json:"agentTolerationsHash,omitempty"`

	// AgentConfigChanged makes the manager install the agent again.
	// +optional
	AgentConfigChanged bool `json:"agentConfigChanged,omitempty"`

	// AgentSchedulingCustomizationHash is the digest of the
	// agentSchedulingCustomization that the agent has.
	// +optional
	AgentSchedulingCustomizationHash string `json:"agentSchedulingCustomizationHash,omitempty"`

	// APIServerURL is the address of the manager that the agent was given.
	// +optional
	APIServerURL string `json:"apiServerURL,omitempty"`

	// APIServerCAHash is the digest of the certificates that the agent was
	// given.
	// +optional
	APIServerCAHash string `json:"apiServerCAHash,omitempty"`

	// AgentTLSMode is system-store or strict.
	// +optional
	AgentTLSMode string `json:"agentTLSMode,omitempty"`

	// GarbageCollectionInterval is how often the agent looks for releases that
	// no BundleDeployment asks for.
	// +optional
	GarbageCollectionInterval *metav1.Duration `json:"garbageCollectionInterval,omitempty"`

	// Display holds texts for tables.
	// +optional
	Display ClusterDisplay `json:"display,omitempty"`

	// Agent is what the agent says of itself.
	// +optional
	Agent AgentStatus `json:"agent,omitempty"`

	// Scheduled is true if a Schedule matches the cluster.
	// +optional
	Scheduled bool `json:"scheduled,omitempty"`

	// ActiveSchedule is true while such a Schedule lets changes through.
	// +optional
	ActiveSchedule bool `json:"activeSchedule,omitempty"`
}

// ClusterDisplay holds texts for tables.
type ClusterDisplay struct {
	// ReadyBundles is "<ready>/<desired>".
	// +optional
	ReadyBundles string `json:"readyBundles,omitempty"`

	// State is the worst state of any deployment, Offline, WaitCheckIn, or
	// empty.
	// +optional
	State string `json:"state,omitempty"`
}

// AgentStatus is what an agent says of itself. Only the agent writes it.
type AgentStatus struct {
	// LastSeen is when the agent last checked in, by its own clock.
	// +optional
	LastSeen metav1.Time `json:"lastSeen,omitempty"`

	// NextCheckIn is when the agent means to check in next, by its own clock. An
	// agent with a schedule is not missed before.
	// +optional
	NextCheckIn *metav1.Time `json:"nextCheckIn,omitempty"`

	// Namespace is the namespace that the agent runs in.
	// +optional
	Namespace string `json:"namespace"`

	// Version of the agent.
	// +optional
	Version string `json:"version,omitempty"`

	// Kubernetes is the version of the cluster.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`

	// Instance is a random word that the agent keeps in its cluster. Two that
	// take turns are two agents with one identity.
	// +optional
	Instance string `json:"instance,omitempty"`

	// ClusterUID is the UID of the namespace kube-system of the cluster in which
	// the agent works. An agent that finds another one here deploys nothing before
	// it knows that the agent there is gone.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`

	// Trouble says why the agent cannot work in its own cluster; empty: it can.
	// +optional
	Trouble string `json:"trouble,omitempty"`

	// Credential stands for the offer of a credential, in the annotation
	// fleet.cattle.io/credential, that the agent has taken: it uses that one.
	// +optional
	Credential string `json:"credential,omitempty"`

	// CredentialExpires is when the token that the agent uses ends, unless it
	// renews it before, as it does. Unset: it lasts until it is revoked.
	// +optional
	CredentialExpires *metav1.Time `json:"credentialExpires,omitempty"`

	// Orphans are releases whose deployment has gone without an order to
	// uninstall.
	// +optional
	Orphans *AgentOrphans `json:"orphans,omitempty"`

	// Journal is the last decisions of the agent, at most 50 lines, as gzip of
	// at most 2 KiB: fleet logs shows them. The agent sends it with a check-in.
	// +optional
	Journal []byte `json:"journal,omitempty"`
}

// AgentOrphans are releases whose BundleDeployment is gone without an order to
// uninstall them.
type AgentOrphans struct {
	// Count of all of them.
	// +optional
	Count int `json:"count,omitempty"`

	// Names of the first 10 deployments, sorted.
	// +optional
	Names []string `json:"names,omitempty"`
}
