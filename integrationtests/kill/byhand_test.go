package kill_test

import (
	"fmt"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/cli"
	helmkube "helm.sh/helm/v3/pkg/kube"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// In this process Helm is the one that people use: the agents are others.
func init() { helmkube.ManagedFieldsManager = "helm" }

// person is a user who runs Helm's own commands on the releases of a Site.
type person struct{ *harness.Site }

func (p person) helm(namespace string) *action.Configuration {
	p.Helper()
	settings := cli.New()
	settings.KubeConfig = p.Down.Cluster.Kubeconfig()
	settings.SetNamespace(namespace)
	cfg := &action.Configuration{}
	p.Must(cfg.Init(settings.RESTClientGetter(), namespace, "secret", func(string, ...any) {}))
	return cfg
}

// upgrade is helm upgrade to a chart with one object.
func (p person) upgrade(name, value string) {
	p.Helper()
	up := action.NewUpgrade(p.helm(p.Home(name)))
	up.Namespace = p.Home(name)
	_, err := up.Run(name, &helmchart.Chart{
		Metadata:  &helmchart.Metadata{APIVersion: "v2", Name: "theirs", Version: "1.0.0"},
		Templates: []*helmchart.File{{Name: "templates/a.yaml", Data: []byte(configMap("a", value))}},
	}, nil)
	p.Must(err)
}

// rollback is helm rollback.
func (p person) rollback(name string, to int) {
	p.Helper()
	back := action.NewRollback(p.helm(p.Home(name)))
	back.Version = to
	p.Must(back.Run(name))
}

// Revisions that people make by hand are drift: reported, corrected where that is
// asked for, and never a reason to deploy what was deployed before, whether the
// agent was there or is started afterwards.
func changedByHand(t *testing.T, hub *harness.Hub) {
	s := newAgentProcess(t, hub, "hand")
	p := person{s.Site}
	want := func(name, value string, correct bool) {
		t.Helper()
		o := harness.Order{Files: []string{"a.yaml", configMap("a", value)}}
		if correct {
			o.Options.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
		}
		s.Order(name, o)
		s.State(name, fleet.Ready)
	}
	shows := func(name, value, at string) {
		t.Helper()
		if got := s.Data(s.Home(name), "a"); got != value {
			t.Errorf("%s: a is %q, want %q", name, got, value)
		}
		if got := s.Deployment(name).Status.Release; got != fmt.Sprintf("%s/%s:%s", s.Home(name), name, at) {
			t.Errorf("%s: the status names %s, want revision %s", name, got, at)
		}
	}
	for _, name := range []string{"reported", "corrected", "back"} {
		want(name, "one", name == "corrected")
	}
	want("back", "two", false)

	p.upgrade("reported", "theirs")
	p.upgrade("corrected", "theirs")
	p.rollback("back", 1)
	s.State("reported", fleet.Modified)
	s.Until("the correction is recorded and reported", func() bool { // the object is back before that
		return s.Data(s.Home("corrected"), "a") == "one" && s.Deployment("corrected").Status.Release == fmt.Sprintf("%s/corrected:3", s.Home("corrected"))
	})
	s.State("corrected", fleet.Ready)
	for range 2 { // with the agent that was there, and with the next one
		s.State("reported", fleet.Modified)
		s.State("back", fleet.Modified)
		shows("reported", "theirs", "1")
		shows("corrected", "one", "3")
		shows("back", "one", "2")
		s.Process().Kill()
		s.Start()
	}

	want("reported", "three", false) // something new goes on top of it
	shows("reported", "three", "3")
	want("back", "one", false) // and so does what was there before
	shows("back", "one", "4")

	p.upgrade("reported", "theirs")
	s.State("reported", fleet.Modified)
	s.Process().Kill()
	busy := release.ID{Namespace: s.Home("reported"), Name: "reported"}
	s.Must(harness.RewriteRelease(s.Context(), hub.Client, busy, 4, "pending-upgrade"))
	s.Start()
	s.Says("reported", fleet.ConditionDeployed, release.ReasonByHand, "is being made by hand")
	s.Order("reported", harness.Order{Files: []string{"a.yaml", configMap("a", "four")}})
	s.Says("reported", fleet.ConditionDeployed, release.ReasonByHand, "is being made by hand")
	if got := s.Data(s.Home("reported"), "a"); got != "theirs" {
		t.Errorf("deployed during an operation of another client: %q", got)
	}
	s.Must(harness.RewriteRelease(s.Context(), hub.Client, busy, 4, "deployed")) // they are done
	s.Process().Kill()
	s.Start()
	s.State("reported", fleet.Ready)
	shows("reported", "four", "5")
}
