package approve

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// DeletionApproval is what fleet approve prints.
type DeletionApproval struct {
	printer.Document
	// Objects are those of which something waits, or those that were named.
	Objects []HeldDeletion `json:"objects,omitempty"`
}

// HeldDeletion is what a change would remove of one object.
type HeldDeletion struct {
	// Kind is GitRepo, HelmOp, Bundle, Cluster or Workspace. The list of a HelmOp is that of
	// its Bundle.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>", or the name of a workspace.
	Name string `json:"name"`
	// Hash is that of the list; empty where nothing waits.
	Hash string `json:"hash,omitempty"`
	// Message says in short what would be removed.
	Message string `json:"message,omitempty"`
	// Removes is the list: what cannot be brought back first, then bundles or
	// deployments. Where it is very long the last line says how many more there
	// are.
	Removes []string `json:"removes,omitempty"`
	// Approved reports that the list was approved now.
	Approved bool `json:"approved"`
	// Kept is true where the list was kept now: nothing of it is removed.
	Kept bool `json:"kept,omitempty"`
	// Error is why it was not.
	Error string `json:"error,omitempty"`
}
