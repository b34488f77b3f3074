package bundle

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// holdReason returns why the manager must not write new versions in a namespace; empty:
// it may. restricted reports that a policy of the namespace forbids it, and not a
// suspension of the whole fleet.
func (bs *base) holdReason(namespace string) (why string, restricted bool) {
	var limits []support.Limit
	for kind, c := range bs.cache.limits {
		for _, o := range c.List(namespace) {
			limits = append(limits, support.Limit{Kind: kind, Name: o.Name})
		}
	}
	if text := support.LimitReason(limits); text != "" {
		return text, true
	}
	return bs.suspension(), false
}

// suspension returns why the manager must not write new versions anywhere: a user has
// run "fleet suspend --all". It is empty if the fleet is not suspended.
func (bs *base) suspension() string {
	cm, ok := bs.cache.suspension.Get(kube.Key{Namespace: bs.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return ""
	}
	return view.HoldReason(cm.Data)
}
