package notimplemented

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A Schedule says that Schedules are switched off, and one with the finalizer of rancher/fleet
// can be deleted.
func TestSchedulesSwitchedOff(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner { return New(scope.Scope{}, c, true, false).Runnables() },
		Given: func(w *looptest.World) {
			w.Server.MakeNamespace("ws")
			for _, name := range []string{"stays", "goes"} {
				looptest.Make(w, &fleet.Schedule{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ws", Name: name, Finalizers: []string{fleet.FinalizerSchedule},
				}})
			}
		},
		When: func(w *looptest.World) { looptest.Remove[*fleet.Schedule](w, "ws", "goes") },
		Then: func(w *looptest.World) {
			c := condition.Find(looptest.Read[*fleet.Schedule](w, "ws", "stays").Status.Conditions, fleet.ConditionAccepted)
			if c == nil || c.Reason != fleet.ReasonSwitchedOff {
				w.Errorf("condition %+v", c)
			}
			if looptest.Read[*fleet.Schedule](w, "ws", "goes") != nil {
				w.Error("the deleted Schedule is still there")
			}
		},
	})
}
