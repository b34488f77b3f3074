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

// onCRD handles a CRD that was created, changed or deleted (gone). It enqueues
// deployments that failed before the kind existed.
func (k *kinds) onCRD(crd string, gone bool) {
	k.helm.Refresh()
	k.drift.KindChanged(crd, gone)
	if gone {
		return
	}
	for _, name := range k.attempts.failedDeployments() {
		k.enqueue(name)
	}
}
