package workspace

import (
	"sync/atomic"

	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// A part says what the manager does, and what Rancher does. It is safe for concurrent
// use.
type part struct {
	now   atomic.Value // plan.Part
	gives atomic.Bool  // Rancher itself gives rights by GlobalRoles
}

// newPart returns a part by which the manager does nothing.
func newPart() *part {
	p := &part{}
	p.now.Store(plan.Sleep)
	return p
}

func (p *part) get() plan.Part {
	now, _ := p.now.Load().(plan.Part)
	return now
}

// set reports whether the part has changed.
func (p *part) set(to plan.Part) bool { return p.now.Swap(to) != to }

// managerMaps reports whether the manager, and not Rancher, maps clusters and
// workspaces.
func (p *part) managerMaps() bool { return p.get() == plan.Map }

// rancherGivesRights reports whether Rancher itself gives the rights of GlobalRoles.
func (p *part) rancherGivesRights() bool { return p.gives.Load() }

// setRancherGivesRights reports whether its value has changed.
func (p *part) setRancherGivesRights(to bool) bool { return p.gives.Swap(to) != to }
