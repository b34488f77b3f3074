package status

import (
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// FleetStatus is what fleet status prints.
type FleetStatus struct {
	printer.Document
	// At is when the fleet was looked at.
	At time.Time `json:"at"`
	// Server is the address of the API server.
	Server string `json:"server"`
	// Suspended reports whether the brake is on.
	Suspended bool `json:"suspended"`
	// Brake says by whom and why.
	Brake *view.GlobalPause `json:"brake,omitempty"`
	view.Status

	names rowNames `json:"-"` // of all objects of the fleet
}
