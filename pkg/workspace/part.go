package workspace

import (
	"sync/atomic"

	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// part is the manager's present role beside Rancher. It is safe for concurrent
// use.
type part struct {
	now   atomic.Value // plan.Part
	gives atomic.Bool  // Rancher itself gives rights by GlobalRoles
}

// newPart returns a part in which nothing is done.
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

// maps reports whether it is the manager that maps.
func (p *part) maps() bool { return p.get() == plan.Map }

// givesRights reports whether Rancher itself gives rights by GlobalRoles.
func (p *part) givesRights() bool { return p.gives.Load() }

// setGives reports whether that has changed.
func (p *part) setGives(to bool) bool { return p.gives.Swap(to) != to }
