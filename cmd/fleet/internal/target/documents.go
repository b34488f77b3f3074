package target

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// Targeting is what fleet target prints.
type Targeting struct {
	printer.Document
	// Bundle is "<workspace>/<name>".
	Bundle string `json:"bundle"`
	// Content is the id of the bundle's resources.
	Content string `json:"content"`
	// Clusters are all clusters of the workspace, by name.
	Clusters []TargetedCluster `json:"clusters"`
	// Objects are the Content, Secrets with values and BundleDeployments as they
	// would be written.
	Objects []map[string]any `json:"objects"`
}

// TargetedCluster is what becomes of the bundle on one cluster.
type TargetedCluster struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Deploy reports whether the bundle is meant for the cluster.
	Deploy bool `json:"deploy"`
	// Reason says why.
	Reason string `json:"reason"`
	// Target is the target that decided, by its name or its place.
	Target string `json:"target,omitempty"`
	// Customizations are those that apply, in order.
	Customizations []string `json:"customizations,omitempty"`
	// DeploymentID is the id that the deployment should have.
	DeploymentID string `json:"deploymentID,omitempty"`
	// Released reports whether the cluster may take that now.
	Released bool `json:"released,omitempty"`
	// Rollout says why, or what it waits for.
	Rollout string `json:"rollout,omitempty"`
	// Error says why the deployment cannot be worked out for this cluster.
	Error string `json:"error,omitempty"`
}
