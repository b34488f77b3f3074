package integrationtests

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/crash"
)

// A manager that dies again and again leads for most of the time: fleet status and
// fleet check report it all the same.
func TestCrashes(t *testing.T) {
	w := harness.Open(t)
	leases := kube.StoreOf[*coordinationv1.Lease](w.Local.Client)
	names := []string{controllers.LeaseController, controllers.LeaseGitJob}
	deaths := func(name string) int {
		lease, err := leases.Get(context.Background(), kube.Key{Namespace: fleet.NamespaceSystem, Name: name})
		if err != nil {
			return -1
		}
		return len(crash.Parse(lease.Annotations[fleet.AnnotationCrashes]))
	}
	t.Cleanup(func() { // other tests look at the manager, too
		for _, name := range names {
			_, err := leases.PatchRaw(context.Background(), kube.Key{Namespace: fleet.NamespaceSystem, Name: name},
				types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+fleet.AnnotationCrashes+`":null}}}`))
			if err != nil {
				t.Error(err)
			}
		}
	})
	before := map[string]int{}
	for _, name := range names {
		before[name] = deaths(name)
	}
	for n := 1; n <= 5; n++ {
		w.KillManager()
		w.StartManager()
		for _, name := range names {
			harness.Eventually(w, "a death is noted on "+name, func() bool { return deaths(name) >= min(before[name]+n, 10) }, true)
		}
	}
	out := w.CLI("status")
	first, _, _ := strings.Cut(out, "\n")
	if !strings.Contains(first, "fleet-controller has died 5 times") || !strings.Contains(first, "gitjob has died 5 times") {
		t.Errorf("the first line does not say that the manager dies again and again:\n%s", out)
	}
	if strings.Contains(out, "all Ready") {
		t.Errorf("all is Ready although nobody knows:\n%s", out)
	}
	if !strings.Contains(out, "NEEDS ATTENTION") {
		t.Errorf("it needs no attention:\n%s", out)
	}
}
