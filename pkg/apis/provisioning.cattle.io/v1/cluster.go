package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// Cluster is what people list and edit in Rancher. It lives in a workspace.
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
	// RKEConfig is nil for clusters that Rancher has not made.
	RKEConfig *RKEConfig `json:"rkeConfig,omitempty"`

	// AgentEnvVars are set on the agents of the cluster.
	AgentEnvVars []EnvVar `json:"agentEnvVars,omitempty"`

	// ClusterAgentDeploymentCustomization changes how Rancher's own agent is
	// deployed. Fleet hands it on as it is.
	ClusterAgentDeploymentCustomization *runtime.RawExtension `json:"clusterAgentDeploymentCustomization,omitempty"`

	// FleetAgentDeploymentCustomization changes how Fleet's agent is deployed.
	FleetAgentDeploymentCustomization *management.AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`

	// WebhookDeploymentCustomization changes how Rancher's webhook is deployed. Fleet
	// hands it on as it is.
	WebhookDeploymentCustomization *runtime.RawExtension `json:"webhookDeploymentCustomization,omitempty"`
}

// EnvVar is a variable of the environment.
type EnvVar struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// RKEConfig is how Rancher makes a cluster; of it only where images come from.
type RKEConfig struct {
	MachineGlobalConfig   fleet.GenericMap `json:"machineGlobalConfig,omitempty"`
	MachineSelectorConfig []SystemConfig   `json:"machineSelectorConfig,omitempty"`
}

// SystemConfig is the configuration of some machines.
type SystemConfig struct {
	// MachineLabelSelector chooses machines; nil: all.
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`
	Config               fleet.GenericMap      `json:"config,omitempty"`
}

// ClusterStatus is what Fleet reads of a Cluster's status.
type ClusterStatus struct {
	// ClusterName is the name of the management Cluster.
	ClusterName string `json:"clusterName,omitempty"`

	// ClientSecretName is the Secret with the cluster's kubeconfig, in the
	// Cluster's namespace.
	ClientSecretName string `json:"clientSecretName,omitempty"`

	// FleetWorkspaceName is the workspace of the management Cluster.
	FleetWorkspaceName string `json:"fleetWorkspaceName,omitempty"`

	Ready bool `json:"ready,omitempty"`
}
