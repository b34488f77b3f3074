package placement

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// compile compiles a Bundle whose values name the cluster.
func compile(t *testing.T) *deployment.Compiled {
	t.Helper()
	k, err := deployment.Compile(&fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web", Generation: 1},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{
				Values: &fleet.GenericMap{Data: map[string]any{"cluster": "${ .ClusterName }"}},
			}},
			Targets: []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}},
		},
	}, "s-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func candidate(t *testing.T, k *deployment.Compiled, name string) Candidate {
	t.Helper()
	place := deployment.NewPlace(&fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{"name": name}},
	}, target.Groups{}, "c-"+name)
	return Candidate{Name: "ws/" + name, Place: place, Verdict: k.Match(&place.Cluster)}
}

func TestVersion(t *testing.T) {
	k := compile(t)
	c := candidate(t, k, "c1")
	first, err := Version(k, c, Rules{})
	if err != nil || first.Version == nil || first.ID == "" || first.ID != first.Version.ID {
		t.Fatalf("%+v, %v", first, err)
	}
	if other, err := Version(k, candidate(t, k, "c2"), Rules{}); err != nil || other.ID == first.ID || other.Inputs == first.Inputs {
		t.Errorf("another cluster has other values, but has %+v, %v", other, err)
	}
	marked := c
	marked.Deployment = &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			fleet.AnnotationInputHash: deployment.Mark{Inputs: first.Inputs, Outcome: "o", Moved: true}.String(),
		}},
		Spec: fleet.BundleDeploymentSpec{StagedDeploymentID: "staged"},
	}
	never := func(target.Verdict, *deployment.Place) (deployment.Version, error) {
		t.Error("a version was worked out that is known")
		return deployment.Version{}, nil
	}
	if n, err := Version(k, marked, Rules{Render: never}); err != nil || n.ID != "staged" || n.Outcome != "o" || n.Version != nil {
		t.Errorf("want the version of the mark, got %+v, %v", n, err)
	}
	known := func(inputs string) (Newest, bool) { return Newest{ID: "known"}, inputs == first.Inputs+"+" }
	more := func(inputs string) string { return inputs + "+" }
	if n, err := Version(k, marked, Rules{Inputs: more, Known: known, Render: never}); err != nil || n.ID != "known" || n.Inputs != first.Inputs+"+" {
		t.Errorf("want the version that is remembered, got %+v, %v", n, err)
	}
	broken := errors.New("broken")
	fails := func(target.Verdict, *deployment.Place) (deployment.Version, error) {
		return deployment.Version{}, broken
	}
	if n, err := Version(k, c, Rules{Render: fails}); !errors.Is(err, broken) || n.ID != "" {
		t.Errorf("want no version and the error, got %+v, %v", n, err)
	}
}

func TestEvaluate(t *testing.T) {
	k := compile(t)
	list := []Candidate{candidate(t, k, "c1"), candidate(t, k, "c2"), candidate(t, k, "c3")}
	list[1].Offline = true
	created := func(maxNew int, held string) (n, atOnce int) {
		strategy := &fleet.RolloutStrategy{}
		_, result, err := Evaluate(k, strategy, maxNew, list, func(i int, target *rollout.Target) {
			if target.Name != list[i].Name || target.Offline != list[i].Offline {
				t.Errorf("candidate %d is %+v", i, target)
			}
			if target.Name != held {
				target.Desired = "s-1:x"
			}
		})
		if err != nil || len(result.Steps) != len(list) {
			t.Fatal(result, err)
		}
		for _, s := range result.Steps {
			if s.Create {
				n++
			}
		}
		return n, result.Batch
	}
	if got, _ := created(0, ""); got != 3 {
		t.Errorf("%d of 3 deployments are created", got)
	}
	if _, got := created(1, ""); got != 1 {
		t.Errorf("%d deployments are created at once, want 1", got)
	}
	if got, _ := created(0, "ws/c3"); got != 2 {
		t.Errorf("%d deployments are created although one version is not known", got)
	}
	bad := &fleet.RolloutStrategy{Partitions: []fleet.Partition{{Name: "p", ClusterSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Sometimes"}},
	}}}}
	if _, _, err := Evaluate(k, bad, 0, list, func(int, *rollout.Target) {}); err == nil {
		t.Error("a strategy that cannot be read must be an error")
	}
}
