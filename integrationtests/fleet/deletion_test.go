package fleet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A commit that removes more than the deletion budget removes nothing until a
// person has approved it; what is new in it is rolled out.
func TestRemovalAboveTheBudgetIsHeld(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("budget")
	dirs := []string{"one", "two", "three", "four", "five"}
	for _, dir := range dirs {
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("budget"))
		repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, "before"))
	}
	repo.DeployReady("five directories", 10)
	held := func() string {
		c := condition.Find(repo.GitRepo().Status.Conditions, fleet.ConditionDeletionHeld)
		if c == nil {
			return ""
		}
		text, _, _ := strings.Cut(c.Message, "; to go on: ")
		return text
	}

	for _, dir := range dirs[:4] {
		repo.Remove(dir)
	}
	repo.Write("five/settings.yaml", harness.ConfigMapYAML("five", "after"))
	commit := repo.Commit("four are gone")

	harness.Eventually(w, "held", held, "would remove 4 of 5 bundles (budget 3): bundle budget-four, bundle budget-one, bundle budget-three, bundle budget-two")
	repo.EventuallyReady(commit, 10)
	harness.Eventually(w, "what is new is there", harness.Data(w, w.C1, "budget", "five"), harness.ConfigMapData("after"))
	for _, dir := range dirs[:4] {
		if harness.Gone[*corev1.ConfigMap](w, w.C1, "budget", dir)() {
			t.Errorf("%s was removed", dir)
		}
	}

	hash, _, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
	if out := w.CLI("approve", "-n", repo.Workspace, "repo/"+repo.Name, hash); !strings.HasSuffix(out, "approved\n") {
		t.Errorf("fleet approve says:\n%s", out)
	}

	for _, m := range w.Downstream() {
		for _, dir := range dirs[:4] {
			harness.Eventually(w, dir+" is gone from "+m.Name, harness.Gone[*corev1.ConfigMap](w, m, "budget", dir), true)
		}
	}
	harness.Eventually(w, "nothing is held", held, "")
	repo.EventuallyReady(commit, 2)
}
