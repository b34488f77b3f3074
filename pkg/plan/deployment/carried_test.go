package deployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func named(kindsAndNames ...string) fleet.BundleDeploymentOptions {
	var o fleet.BundleDeploymentOptions
	for i := 0; i < len(kindsAndNames); i += 2 {
		o.DownstreamResources = append(o.DownstreamResources, fleet.DownstreamResource{Kind: kindsAndNames[i], Name: kindsAndNames[i+1]})
	}
	return o
}

func TestSources(t *testing.T) {
	target := func(o fleet.BundleDeploymentOptions) fleet.BundleTarget {
		return fleet.BundleTarget{BundleDeploymentOptions: o}
	}
	cases := map[string]struct {
		why  string
		spec fleet.BundleSpec
		want []Source
	}{
		"Nothing": {"", fleet.BundleSpec{}, nil},
		"Both": {
			"those of targets count, kinds are read in any case, each once",
			fleet.BundleSpec{BundleDeploymentOptions: named("SECRET", "b", "ConfigMap", "a"), Targets: []fleet.BundleTarget{target(named("secret", "b", "secret", "c"))}},
			[]Source{{KindConfigMap, "a"}, {KindSecret, "b"}, {KindSecret, "c"}},
		},
		"Chart": {
			"credentials go along where agents pull",
			fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{SecretName: "charts"}}, []Source{{KindSecret, "charts"}},
		},
		"ChartOfManager": {
			"and stay where the manager pulls",
			fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{SecretName: "charts", Pull: fleet.PullManager}}, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Sources(&c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
	if _, err := Sources(&fleet.BundleSpec{BundleDeploymentOptions: named("Pod", "x")}); reconcile.ReasonOf(err) != ReasonBadSource {
		t.Errorf("nothing but Secrets and ConfigMaps is copied: got %v", err)
	}
}

// The number that agents look at goes up when data change, and for nothing else.
func TestCarry(t *testing.T) {
	deployment := func(generation int, carried ...string) *fleet.BundleDeployment {
		bd := &fleet.BundleDeployment{}
		bd.Annotations = map[string]string{}
		bd.Spec.DownstreamResourcesGeneration = generation
		for _, c := range carried {
			bd.Annotations[fleet.AnnotationCarried] = c
		}
		return bd
	}
	cases := map[string]struct {
		why  string
		bd   *fleet.BundleDeployment
		v    Version
		want int
	}{
		"New":       {"the first copy is the first", deployment(0), Version{Options: named("Secret", "a"), Carried: "x"}, 1},
		"Same":      {"a change of something else", deployment(3, "x"), Version{Options: named("Secret", "a"), Carried: "x"}, 3},
		"Changed":   {"other data", deployment(3, "x"), Version{Options: named("Secret", "a"), Carried: "y"}, 4},
		"TakenOver": {"another manager has counted: a release is not upgraded for that", deployment(5), Version{Options: named("Secret", "a"), Carried: "x"}, 5},
		"Chart":     {"credentials alone upgrade nothing", deployment(0, "x"), Version{Carried: "y"}, 0},
		"NoMore":    {"nothing goes along any more", deployment(3, "x"), Version{}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			annotateCarried(c.bd, c.v)
			if got := c.bd.Spec.DownstreamResourcesGeneration; got != c.want {
				t.Errorf("%s: want %d, got %d", c.why, c.want, got)
			}
			if got := c.bd.Annotations[fleet.AnnotationCarried]; got != c.v.Carried {
				t.Errorf("the digest is %q, want %q", got, c.v.Carried)
			}
		})
	}
}

func TestCharts(t *testing.T) {
	spec := &fleet.BundleSpec{
		BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Repo: "https://x", Chart: "a", Version: "1"}},
		Targets: []fleet.BundleTarget{
			{BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Version: "2"}}},
			{Name: "same"},
			{DoNotDeploy: true, BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Version: "3"}}},
		},
	}
	want := []chart.Request{{Repo: "https://x", Chart: "a", Version: "1"}, {Repo: "https://x", Chart: "a", Version: "2"}}
	if diff := cmp.Diff(want, Charts(spec)); diff != "" {
		t.Errorf("each chart that any cluster gets, once\n%s", diff)
	}
}
