package gitrepo

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// suspended returns why the whole fleet is suspended ("fleet suspend --all"); empty if
// it is not.
func (w *Worker) suspended() string {
	m, ok := w.cache.config.Get(kube.Key{Namespace: w.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return ""
	}
	return view.HoldReason(m.Data)
}
