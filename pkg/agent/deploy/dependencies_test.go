package deploy

import (
	"errors"
	"slices"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func labelled(name string) map[string]string {
	return map[string]string{fleet.LabelBundleName: name, fleet.LabelBundleNamespace: "ws"}
}

// No timer looks whether a dependency is there: the deployments that wait for it are
// enqueued, and no others.
func TestDependenciesWaitForChanges(t *testing.T) {
	d := newDependencies(records{}, time.Now, func(string) {})
	s := &snapshot{name: "b", labels: labelled("b"), session: nil}
	s.spec.DependsOn = []fleet.BundleRef{{Name: "a"}}
	d.setWaiting(dependency.Node{Name: "c", Labels: labelled("c"), DependsOn: []fleet.BundleRef{{Name: "x"}}})
	d.setWaiting(dependency.Node{Name: "b", Labels: labelled("b"), DependsOn: s.spec.DependsOn})

	bd := &fleet.BundleDeployment{}
	bd.Name, bd.Labels = "a", labelled("a")
	if got := d.waitingFor(bd); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a change of a wakes up %q, want b alone", got)
	}
	d.setWaiting(dependency.Node{Name: "b"})
	if got := d.waitingFor(bd); len(got) > 0 {
		t.Errorf("b waits no more, and %q is woken up", got)
	}
}

// A cycle is a failure to who looks, and not tried again by the clock.
func TestSetbackWithoutClock(t *testing.T) {
	err := error(&reportedRetry{reconcile.RequeueError(dependency.ReasonCycle, 0, errors.New("a -> a")), 0})
	var back *reportedRetry
	if !errors.As(err, &back) || back.within != 0 || reconcile.ReasonOf(err) != dependency.ReasonCycle || !reconcile.IsRequeue(err) {
		t.Errorf("got %#v", err)
	}
	if got := min(backOff(1), back.within); got != 0 {
		t.Errorf("tried again after %s", got)
	}
}
