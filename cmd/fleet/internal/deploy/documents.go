package deploy

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// Deployed is what fleet deploy prints.
type Deployed struct {
	printer.Document
	// Deployment is "<namespace>/<name>" of the BundleDeployment.
	Deployment string `json:"deployment"`
	// DeploymentID is its id.
	DeploymentID string `json:"deploymentID"`
	// Release is "<namespace>/<name>" of the Helm release.
	Release string `json:"release"`
	// DryRun reports that nothing was written.
	DryRun bool `json:"dryRun,omitempty"`
	// Changed reports whether anything was done.
	Changed bool `json:"changed"`
	// Revision is that of the release; left out with --dry-run.
	Revision int `json:"revision,omitempty"`
	// Reason says why it was done, or not.
	Reason string `json:"reason"`
	// Objects are what is installed, in this order.
	Objects []map[string]any `json:"objects"`
}
