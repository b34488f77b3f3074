package deploy

import (
	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/helm"
)

// kinds pass on which kinds the agent's cluster serves.
type kinds struct {
	helm     *helm.Client
	drift    *drift.Monitor
	attempts *attempts
	enqueue  func(name string)
}

// changed is called when a CRD is created, changed or deleted. A deployment that
// failed is tried again when a kind is there.
func (k *kinds) changed(crd string, gone bool) {
	k.helm.Refresh()
	k.drift.KindChanged(crd, gone)
	if gone {
		return
	}
	for _, name := range k.attempts.failing() {
		k.enqueue(name)
	}
}
