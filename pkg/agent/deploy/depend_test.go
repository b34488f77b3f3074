package deploy

import (
	"errors"
	"slices"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func labelled(name string) map[string]string {
	return map[string]string{fleet.LabelBundleName: name, fleet.LabelBundleNamespace: "ws"}
}

// Nobody looks at the clock to see whether a dependency is there: who waits is
// woken up, and nobody else.
func TestDependenciesWaitForChanges(t *testing.T) {
	r := &Reconciler{states: map[string]*state{}}
	s := &snapshot{name: "b", labels: labelled("b"), session: nil}
	s.spec.DependsOn = []fleet.BundleRef{{Name: "a"}}
	r.await(dependency.Node{Name: "c", Labels: labelled("c"), DependsOn: []fleet.BundleRef{{Name: "x"}}})
	r.await(dependency.Node{Name: "b", Labels: labelled("b"), DependsOn: s.spec.DependsOn})

	bd := &fleet.BundleDeployment{}
	bd.Name, bd.Labels = "a", labelled("a")
	if got := r.waitingFor(bd); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a change of a wakes up %q, want b alone", got)
	}
	r.await(dependency.Node{Name: "b"})
	if got := r.waitingFor(bd); len(got) > 0 {
		t.Errorf("b waits no more, and %q is woken up", got)
	}
}

// A cycle is a failure to who looks, and not tried again by the clock.
func TestSetbackWithoutClock(t *testing.T) {
	err := error(&setback{reconcile.RequeueError(dependency.ReasonCycle, 0, errors.New("a -> a")), 0})
	var back *setback
	if !errors.As(err, &back) || back.within != 0 || reconcile.ReasonOf(err) != dependency.ReasonCycle || !reconcile.IsRequeue(err) {
		t.Errorf("got %#v", err)
	}
	if got := min(backOff(1), back.within); got != 0 {
		t.Errorf("tried again after %s", got)
	}
}
