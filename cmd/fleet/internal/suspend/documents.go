package suspend

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Suspension is what fleet suspend and fleet resume print.
type Suspension struct {
	printer.Document
	// Suspended reports what is so now.
	Suspended bool `json:"suspended"`
	// Brake is the brake on everything; only with --all.
	Brake *view.GlobalPause `json:"brake,omitempty"`
	// Objects are those that were told.
	Objects []SuspendedObject `json:"objects,omitempty"`
}

// SuspendedObject is one object that was suspended or resumed.
type SuspendedObject struct {
	// Kind is GitRepo, HelmOp, Bundle or Cluster.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Changed reports whether it was otherwise before.
	Changed bool `json:"changed"`
	// Pause is who holds it back, since when and why; left out where it is not paused.
	Pause *view.Pause `json:"pause,omitempty"`
	// Error is why it was not done.
	Error string `json:"error,omitempty"`
}
