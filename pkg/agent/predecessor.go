package agent

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// follow reads from the agent's ConfigMap which agent this one takes over from. An
// agent is never its own predecessor.
func (a *agent) follow(cm *corev1.ConfigMap) {
	from := cm.Data[registration.KeyAdoptFrom]
	if from == a.cfg.Namespace {
		from = ""
	}
	if old := a.before.Swap(&from); from != "" && (old == nil || *old != from) {
		a.log.WithField("reason", "key "+registration.KeyAdoptFrom+" of the ConfigMap "+cm.Name).
			Infof("takes over what the agent in namespace %s has deployed, once that agent is gone", from)
	}
}

// predecessor is the namespace of the agent that this one takes over from; empty:
// there is none.
func (a *agent) predecessor() string {
	if p := a.before.Load(); p != nil {
		return *p
	}
	return ""
}
