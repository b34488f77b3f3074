package fleet

import (
	"context"
	"fmt"
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
	processes := map[string]string{controllers.LeaseController: "fleet-controller", controllers.LeaseGitJob: "gitjob"}
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
	// A manager may have died once more, where this machine kept it from its lease.
	var out string
	harness.Eventually(w, "the first line says that the manager dies again and again", func() (lacks []string) {
		out = w.CLI("status")
		first, _, _ := strings.Cut(out, "\n")
		for _, name := range names {
			if died := fmt.Sprintf("%s has died %d times", processes[name], deaths(name)); !strings.Contains(first, died) {
				lacks = append(lacks, died+": "+first)
			}
		}
		return lacks
	}, nil)
	if strings.Contains(out, "all Ready") {
		t.Errorf("all is Ready although no agent has reported:\n%s", out)
	}
	if !strings.Contains(out, "NEEDS ATTENTION") {
		t.Errorf("it needs no attention:\n%s", out)
	}
}
