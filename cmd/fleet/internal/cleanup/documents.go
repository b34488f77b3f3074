package cleanup

import "github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"

// CleanupReport is what fleet cleanup prints.
type CleanupReport struct {
	printer.Document
	// DryRun reports that nothing was deleted.
	DryRun bool `json:"dryRun,omitempty"`
	// Objects are the leftovers, in the order in which they are deleted.
	Objects []CleanedObject `json:"objects"`
}

// CleanedObject is one leftover.
type CleanedObject struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Name is "<namespace>/<name>", or the name of a cluster-scoped object.
	Name string `json:"name"`
	// Reason is why it is left over.
	Reason string `json:"reason"`
	// Deleted reports that this command has deleted it.
	Deleted bool `json:"deleted"`
	// Error is why it was not deleted.
	Error string `json:"error,omitempty"`
}
