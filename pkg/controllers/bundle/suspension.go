package bundle

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// suspension returns why the manager must not write new versions anywhere: a user has
// run "fleet suspend --all". It is empty if the fleet is not suspended.
func (bs *base) suspension() string {
	cm, ok := bs.cache.suspension.Get(kube.Key{Namespace: bs.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return ""
	}
	return view.HoldReason(cm.Data)
}
