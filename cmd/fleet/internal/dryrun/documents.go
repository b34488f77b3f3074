package dryrun

import (
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Rendering is what fleet test prints.
type Rendering struct {
	printer.Document
	// Bundle is the name of the bundle.
	Bundle string `json:"bundle"`
	// Cluster is the name of the cluster that the flags describe.
	Cluster string `json:"cluster"`
	// Target is the target that decided, by its name or its place.
	Target string `json:"target"`
	// Customizations are those that apply, in order.
	Customizations []string `json:"customizations,omitempty"`
	// Reason says why the target matches.
	Reason string `json:"reason"`
	// DeploymentID is the id that the deployment would have.
	DeploymentID string `json:"deploymentID"`
	// Release is "<namespace>/<name>" of the Helm release.
	Release string `json:"release"`
	// Unknown names the ConfigMaps and Secrets whose values are missing here.
	Unknown []string `json:"unknown,omitempty"`
	// NotRendered says which templates of values are not rendered, and why.
	NotRendered string `json:"notRendered,omitempty"`
	// Objects are what would be installed, in this order.
	Objects []map[string]any `json:"objects"`
}

// matched names the target and the customizations that apply.
func (r Rendering) matched() string {
	return strings.Join(append([]string{r.Target}, r.Customizations...), ", ")
}

func groupOf(name string, labels map[string]string) plantarget.Group {
	return plantarget.Group{Name: name, Labels: labels}
}
