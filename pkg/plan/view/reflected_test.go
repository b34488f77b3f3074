package view

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A wait that is over is shown when the Bundle, the GitRepo and the Clusters say what the
// agents have reported, and not while they speak of what was before.
func TestShown(t *testing.T) {
	const text = "spec.replicas: Invalid value"
	goal := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: "bbbbbbb"}
	rollingOut := func(r *fleet.GitRepo) {
		r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonProgressing, "commit bbbbbbb is being rolled out", 0)}
	}
	has := func(bad ...fleet.NonReadyResource) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) {
			c.Status.Summary = fleet.BundleSummary{DesiredReady: 2, Ready: 2 - len(bad), NonReadyResources: bad}
		}
	}
	moving := fleet.NonReadyResource{Name: "web", State: fleet.WaitApplied}
	refused := failed("Invalid", text)
	reads := func(b *fleet.Bundle) { b.Generation, b.Status.ObservedGeneration = 3, 2 }
	cases := map[string]struct {
		status     []func(*fleet.Bundle)
		repo       []func(*fleet.GitRepo)
		cluster    []func(*fleet.Cluster)
		deployment func(*fleet.BundleDeployment)
		want       bool
	}{
		"Ready":            {status: []func(*fleet.Bundle){on(1)}, deployment: applied, want: true},
		"StillMoving":      {status: []func(*fleet.Bundle){on(1, bad("a", fleet.WaitApplied, ""))}, deployment: applied},
		"StillFailing":     {status: []func(*fleet.Bundle){on(1, bad("a", fleet.ErrApplied, "before"))}, deployment: applied},
		"ChangedSince":     {status: []func(*fleet.Bundle){on(1, bad("a", fleet.WaitApplied, "")), reads}, deployment: applied, want: true},
		"Failed":           {status: []func(*fleet.Bundle){on(1, bad("a", fleet.ErrApplied, text))}, deployment: refused, want: true},
		"FailureNotThere":  {status: []func(*fleet.Bundle){on(1, bad("a", fleet.WaitApplied, ""))}, deployment: refused},
		"FailureOfBefore":  {status: []func(*fleet.Bundle){on(1, bad("a", fleet.ErrApplied, "before"))}, deployment: refused},
		"RepoRollingOut":   {status: []func(*fleet.Bundle){on(1)}, repo: []func(*fleet.GitRepo){rollingOut}, deployment: applied},
		"ClusterMoving":    {status: []func(*fleet.Bundle){on(1)}, cluster: []func(*fleet.Cluster){has(moving)}, deployment: applied},
		"ClusterHasOthers": {status: []func(*fleet.Bundle){on(1)}, cluster: []func(*fleet.Cluster){has(fleet.NonReadyResource{Name: "db", State: fleet.WaitApplied})}, deployment: applied, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			judged := finished(Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("a")},
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))}, Deployments: []*fleet.BundleDeployment{deployment("web", "a", c.deployment)},
			})
			v := Evaluate(goal, judged)
			if v.End == Waiting {
				t.Fatalf("the wait is not over: %s", text)
			}
			shows := Fleet{
				Repositories: []*fleet.GitRepo{repo(append([]func(*fleet.GitRepo){read}, c.repo...)...)},
				Clusters:     []*fleet.Cluster{cluster("a", c.cluster...)},
				Bundles:      []*fleet.Bundle{bundle("web", append([]func(*fleet.Bundle){changedBundle}, c.status...)...)},
			}
			if got := Reflected(goal, v, shows); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
