package deploy

import (
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestBackOff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 5: 32 * time.Second, 9: lastDelay, 500: lastDelay} {
		if got := backOff(attempts); got != want {
			t.Errorf("after %d attempts: want %v, got %v", attempts, want, got)
		}
	}
}

func TestSameRepository(t *testing.T) {
	git := func(ns, repo string) map[string]string {
		return map[string]string{fleet.LabelBundleNamespace: ns, fleet.LabelRepoName: repo}
	}
	op := map[string]string{fleet.LabelBundleNamespace: "a", fleet.LabelHelmOpName: "r"}
	cases := map[string]struct {
		a, b map[string]string
		want bool
	}{
		"Same":           {git("a", "r"), git("a", "r"), true},
		"OtherRepo":      {git("a", "r"), git("a", "s"), false},
		"OtherWorkspace": {git("a", "r"), git("b", "r"), false},
		"NoRepo":         {git("a", ""), git("a", ""), false},
		"HelmOp":         {op, op, true},
		"RepoAndHelmOp":  {git("a", "r"), op, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sameRepository(c.a, c.b); got != c.want {
				t.Errorf("want %v, got %v", c.want, got)
			}
		})
	}
}

// Who has limited a deployment is known also after a restart without a manager.
func TestAdminNamespace(t *testing.T) {
	r := &releases{sharing: newSharing(time.Now, nil)}
	labels := map[string]string{fleet.LabelAdminNamespace: "", "team": "a"}
	for name, l := range map[string]map[string]string{"Ordered": labels, "Kept": ownLabels(labels)} {
		if d := r.helmDeployment(&snapshot{labels: l}); !d.AdminNamespace {
			t.Errorf("%s: the label counts, whatever it says", name)
		}
	}
	if d := r.helmDeployment(&snapshot{labels: map[string]string{"team": "a"}}); d.AdminNamespace {
		t.Error("a fleet.yaml has set its own namespace")
	}
}
