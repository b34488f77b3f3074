package workspace

import (
	"fmt"
	"time"
)

// A Mode says who maps Rancher's objects.
type Mode string

// Modes, as the chart value workspace.mode says them.
const (
	// Auto: Rancher maps while it is there, and this manager where it is not.
	Auto Mode = "auto"
	// WithRancher: Rancher maps; this manager only observes.
	WithRancher Mode = "rancher"
	// Standalone: this manager maps.
	Standalone Mode = "standalone"
)

// ParseMode reads a Mode; empty is Auto.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "":
		return Auto, nil
	case Auto, WithRancher, Standalone:
		return m, nil
	}
	return "", fmt.Errorf("workspace.mode is %q, want auto, rancher or standalone", text)
}

// RancherSigns are the signs of Rancher on the cluster.
type RancherSigns struct {
	Kinds   bool          // its kinds are in the cluster
	Renewed time.Duration // since its lease was seen to be renewed; negative: it has none
	Held    time.Duration // how long the lease holds, as it says
	Off     bool          // its feature fleet is off
	Single  bool          // its feature multi-cluster-management is off
}

// isAlive reports whether Rancher has renewed its lease lately. A Rancher that was just
// restarted is alive.
func (s RancherSigns) isAlive() bool {
	return s.Renewed >= 0 && s.Renewed < grace*max(s.Held, leaseHolds)
}

// GivesRights reports whether Rancher itself gives those who are bound to GlobalRoles
// their rights in workspaces. That belongs to multi-cluster management and not to the
// feature fleet: Rancher does so in every mode, and also where it does not map. It
// deletes what another writes.
func GivesRights(s RancherSigns) bool { return s.isAlive() && !s.Single }

// A Part is what this manager does with Rancher's objects.
type Part string

// Parts.
const (
	Sleep   Part = "sleep"   // its kinds are not there
	Observe Part = "observe" // Rancher maps
	Map     Part = "map"     // we map
)

// grace is how many times its lease duration Rancher may be gone before this manager takes
// over: Rancher may only be restarting, and two writers are worse than none for a while. A
// lease that was given back holds for a second, so leaseHolds is the least.
const (
	grace      = 4
	leaseHolds = 45 * time.Second
)

// DecidePart decides what this manager does, and says why.
func DecidePart(m Mode, s RancherSigns) (Part, string) {
	switch {
	case !s.Kinds:
		return Sleep, "Rancher's kinds are not in this cluster"
	case m == WithRancher:
		return Observe, "workspace.mode is rancher"
	case m == Standalone:
		return Map, "workspace.mode is standalone"
	case s.Off:
		return Map, "Rancher's feature fleet is off"
	case s.Renewed < 0:
		return Map, "Rancher has no lease here"
	case s.isAlive():
		return Observe, fmt.Sprintf("Rancher has renewed its lease %s ago", s.Renewed.Round(time.Second))
	}
	return Map, fmt.Sprintf("Rancher has not renewed its lease for %s", s.Renewed.Round(time.Second))
}

// Marks of objects that Rancher's own handlers have made.
const (
	setCluster   = "fleet-cluster"
	setWorkspace = "workspace"
)

// OfRancher reports, by an object's annotation objectset.rio.cattle.io/id, whether
// Rancher's handlers have made the object.
func OfRancher(objectSet string) bool { return objectSet == setCluster || objectSet == setWorkspace }
