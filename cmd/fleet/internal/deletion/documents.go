package deletion

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// Deletion is what fleet delete prints.
type Deletion struct {
	printer.Document
	// Object is GitRepo, HelmOp or Bundle.
	Object string `json:"object"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Bundles is how many of them go.
	Bundles int `json:"bundles"`
	// Deployments is how many releases there are of these bundles, and Clusters on how
	// many clusters.
	Deployments int `json:"deployments"`
	Clusters    int `json:"clusters"`
	// Hash is that of the list.
	Hash string `json:"hash"`
	// Message says in short what would be removed.
	Message string `json:"message"`
	// Removes is the list: what cannot be brought back first, then bundles or
	// deployments. Where it is very long the last line says how many more there
	// are.
	Removes []string `json:"removes,omitempty"`
	// WrittenBy is the GitRepo that makes the Bundle again as long as its repository has
	// the files of it.
	WrittenBy string `json:"writtenBy,omitempty"`
	// HelmOp is the HelmOp that makes the Bundle again until the HelmOp is deleted.
	HelmOp string `json:"helmOp,omitempty"`
	// Outcome is what became of it: refused, deleted (it is gone), ordered (it was not
	// waited for), held (the manager waits for an approval) or timeout.
	Outcome string `json:"outcome"`
	// Kept is true where the workloads stay.
	Kept bool `json:"kept,omitempty"`
	// Error is why it is not gone.
	Error string `json:"error,omitempty"`
}
