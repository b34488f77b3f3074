package fleet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Image scanning is off unless the chart's value says otherwise: an ImageScan says so
// itself, and a Warning event says it as well.
func TestSwitchedOffKindSaysSo(t *testing.T) {
	w := harness.Open(t)
	scan := harness.Create(w, w.Local, &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "unscanned"}})
	t.Cleanup(func() { harness.Delete(w, w.Local, scan) })

	w.Until("Accepted is False", func() string {
		now, _ := harness.Get[*fleet.ImageScan](w, w.Local, scan.Namespace, scan.Name)
		c := condition.Find(now.Status.Conditions, fleet.ConditionAccepted)
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != fleet.ReasonSwitchedOff {
			return "the ImageScan says nothing"
		}
		return harness.Missing(c.Message, "imagescan.enabled")
	})
	w.Until("a Warning event", func() string {
		for _, e := range harness.List[*eventsv1.Event](w, w.Local, scan.Namespace, "") {
			if e.Regarding.UID == scan.UID && e.Type == corev1.EventTypeWarning && e.Reason == fleet.ReasonSwitchedOff {
				return ""
			}
		}
		return "none for the ImageScan"
	})
}

// A Policy that a GitRepo violates stops all that is new from the GitRepo; what is deployed
// stays, other namespaces go on, and the GitRepo names the violation.
func TestPolicyHoldsWhatIsNew(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("fenced")
	repo.Workspace = fleet.NamespaceLocal
	repo.Write("app/fleet.yaml", harness.FleetYAML("fenced"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 1, func(s *fleet.GitRepoSpec) { s.Targets = nil })
	other := w.Repository("unfenced")
	other.Write("app/fleet.yaml", harness.FleetYAML("unfenced"))
	other.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	other.DeployReady("one", 2)
	before := look(w, repo, w.Local, "fenced-app", "app")

	policy := harness.Create(w, w.Local, &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceLocal, Name: "fence"}, RequireServiceAccount: true})
	gone := false
	t.Cleanup(func() {
		if !gone {
			harness.Delete(w, w.Local, policy)
		}
	})
	w.Until("the GitRepo names the violation", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "serviceAccount is required by Policy")
	})
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	repo.Write("new/fleet.yaml", harness.FleetYAML("fenced"))
	repo.Write("new/settings.yaml", harness.ConfigMapYAML("new", "two"))
	commit := repo.Commit("two")
	other.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	other.EventuallyReady(other.Commit("two"), 2)
	harness.Throughout(w, watchFor, "held", func() trace { return look(w, repo, w.Local, "fenced-app", "app") }, before)
	if len(repo.Deployments(w.Local)) != 1 {
		t.Error("a new deployment was made in a fenced namespace")
	}

	harness.Delete(w, w.Local, policy)
	gone = true

	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "let go", harness.Data(w, w.Local, "fenced", "app"), harness.ConfigMapData("two"))
}
