package main

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// The fleets of the transcripts, which the pages show, have failed deployments
// only as agents report them: a failure that counts as applied is NotReady, every
// other one is ErrApplied.
func TestFleetsFailAsAgentsReport(t *testing.T) {
	files, err := filepath.Glob("testdata/fleets/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fleets: %v", err)
	}
	for _, file := range files {
		_, steps := readScenario(t, file)
		for _, s := range steps {
			for _, o := range s.objects {
				if o.GetKind() != "BundleDeployment" {
					continue
				}
				var bd fleet.BundleDeployment
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &bd); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				checkFailure(t, file, &bd)
			}
		}
	}
}

func checkFailure(t *testing.T, file string, bd *fleet.BundleDeployment) {
	t.Helper()
	state := summary.State(bd, "")
	for _, c := range bd.Status.Conditions {
		failed := c.Status == "False" && (c.Type == fleet.ConditionDeployed || c.Type == fleet.ConditionInstalled)
		if failed && release.Recorded(c.Reason) && (state != fleet.NotReady || bd.Status.Release != "") {
			t.Errorf("%s: %s/%s is %s with release %q; an agent reports %s as NotReady, without a release",
				file, bd.Namespace, bd.Name, state, bd.Status.Release, c.Reason)
		}
	}
	installed := condition.Find(bd.Status.Conditions, fleet.ConditionInstalled)
	deployed := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
	if installed != nil && installed.Status == "False" && (deployed == nil || deployed.Status != "False") {
		t.Errorf("%s: %s/%s is not installed, and Deployed is not False", file, bd.Namespace, bd.Name)
	}
}
