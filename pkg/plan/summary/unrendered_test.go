package summary

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// Templates that are not rendered are a condition of the Bundle and of its GitRepo, which
// goes when the clusters have labels. Ready is not lowered by it.
func TestUnrendered(t *testing.T) {
	const text = "templates of values are not rendered for c1, which has no labels: the value is the text of the template; " +
		"with any label on the Cluster they are rendered"
	said := func(list []fleet.Condition) string {
		if c := condition.Find(list, fleet.ConditionValuesRendered); c != nil {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
		return ""
	}
	app := RepoBundle{Name: "app", UID: "2", Targets: 1, Unrendered: values.Unrendered{Clusters: 1, First: "c1"}}
	web := RepoBundle{Name: "web", UID: "1", Targets: 1, Unrendered: values.Unrendered{Clusters: 1, First: "c2"}}
	b, r := fleet.BundleStatus{}, repo(nil)
	for _, step := range []struct {
		why          string
		bundles      []RepoBundle
		bundle, repo string
	}{
		{"one bundle", []RepoBundle{app}, "False NoLabels " + text, "False NoLabels bundle app: " + text},
		{"another one too", []RepoBundle{web, app}, "False NoLabels " + text, "False NoLabels bundle app: " + text + " (and 1 more)"},
		{"the clusters have labels now", []RepoBundle{{Name: "app", UID: "2", Targets: 1}}, "", ""},
	} {
		b = BundleStatus(&b, &Bundle{Generation: 2, Unrendered: step.bundles[len(step.bundles)-1].Unrendered}, now)
		r.Status = GitRepoStatus(r, Sources{Bundles: step.bundles, Deployments: d("c1 Ready")}, now)
		if got := said(b.Conditions); got != step.bundle {
			t.Errorf("%s: the Bundle says %q, want %q", step.why, got, step.bundle)
		}
		if got := said(r.Status.Conditions); got != step.repo {
			t.Errorf("%s: the GitRepo says %q, want %q", step.why, got, step.repo)
		}
		if !condition.IsTrue(r.Status.Conditions, fleet.ConditionReady) || !condition.IsTrue(b.Conditions, fleet.ConditionReady) {
			t.Errorf("%s: want both Ready", step.why)
		}
	}
}
