package v3

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Cluster is Rancher's own record of a cluster. It is cluster scoped; the name is
// "local", "c-" and five characters, or "c-m-" and eight.
//
// +kubebuilder:object:root=true
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitempty"`
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Cluster `json:"items"`
}

// ClusterSpec is what Fleet reads of a Cluster's spec.
type ClusterSpec struct {
	// DisplayName is what people call the cluster.
	DisplayName string `json:"displayName,omitempty"`

	// Internal is true for the cluster that Rancher runs in.
	Internal bool `json:"internal,omitempty"`

	// FleetWorkspaceName is the workspace of the cluster; empty: it has none, and
	// Fleet does not manage it.
	FleetWorkspaceName string `json:"fleetWorkspaceName,omitempty"`

	// AgentEnvVars are set on the agents of the cluster.
	AgentEnvVars []corev1.EnvVar `json:"agentEnvVars,omitempty"`

	// ClusterAgentDeploymentCustomization changes how Rancher's own agent is
	// deployed. Fleet hands it on as it is.
	ClusterAgentDeploymentCustomization *runtime.RawExtension `json:"clusterAgentDeploymentCustomization,omitempty"`

	// FleetAgentDeploymentCustomization changes how Fleet's agent is deployed.
	FleetAgentDeploymentCustomization *AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`

	// WebhookDeploymentCustomization changes how Rancher's webhook is deployed. Fleet
	// hands it on as it is.
	WebhookDeploymentCustomization *runtime.RawExtension `json:"webhookDeploymentCustomization,omitempty"`

	// ImportedConfig belongs to clusters that were not made by Rancher.
	ImportedConfig *ImportedConfig `json:"importedConfig,omitempty"`
}

// AgentDeploymentCustomization changes how an agent is deployed. Both cluster
// kinds have it.
type AgentDeploymentCustomization struct {
	AppendTolerations            []corev1.Toleration                 `json:"appendTolerations,omitempty"`
	OverrideAffinity             *corev1.Affinity                    `json:"overrideAffinity,omitempty"`
	OverrideResourceRequirements *corev1.ResourceRequirements        `json:"overrideResourceRequirements,omitempty"`
	SchedulingCustomization      *fleet.AgentSchedulingCustomization `json:"schedulingCustomization,omitempty"`
}

// ImportedConfig says where an imported cluster gets its images.
type ImportedConfig struct {
	// PrivateRegistryURL is put before the names of images. Default: the setting
	// system-default-registry.
	PrivateRegistryURL string `json:"privateRegistryURL,omitempty"`

	// PrivateRegistryPullSecrets are the names of Secrets.
	PrivateRegistryPullSecrets []string `json:"privateRegistryPullSecrets,omitempty"`
}

// ClusterStatus is what Fleet reads of a Cluster's status.
type ClusterStatus struct {
	Conditions []Condition `json:"conditions,omitempty"`
	Driver     string      `json:"driver,omitempty"`
	Provider   string      `json:"provider,omitempty"`
}

// Conditions of a Cluster.
const (
	ConditionReady     = "Ready"
	ConditionConnected = "Connected"
)

// Condition is one of Rancher's conditions. Its times are texts.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastUpdateTime     string                 `json:"lastUpdateTime,omitempty"`
	LastTransitionTime string                 `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}
