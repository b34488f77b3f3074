package recovery

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// Everything of a manager is copied into another cluster, deployments too. What an
// agent is asked for first is not believed where it is not what it was asked for
// before.
func TestManagerCopied(t *testing.T) {
	hub := harness.NewHub(t, harness.Memory(t, "copied"))
	t.Run("LaterEpoch", func(t *testing.T) { t.Parallel(); laterEpoch(&site{harness.NewSite(t, hub, hub, "later")}) })
	t.Run("AnotherManager", func(t *testing.T) { t.Parallel(); anotherManager(&site{harness.NewSite(t, hub, hub, "another")}) })
}

// site is an agent with a manager that the test plays.
type site struct{ *harness.Site }

// asks orders a deployment with a value.
func (s *site) asks(name, value string) *fleet.BundleDeployment {
	s.Helper()
	return s.Order(name, harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", value)}})
}

// asksAgain is asks with an object that was made again, as a copy is.
func (s *site) asksAgain(name, value string) *fleet.BundleDeployment {
	s.Helper()
	s.DeleteDeployment(name)
	return s.asks(name, value)
}

// answersTo gives the Cluster the mark of a manager.
func (s *site) answersTo(mark string) {
	s.Helper()
	harness.Edit(s.TB, s.Hub, s.Workspace, s.Name, func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationManager] = mark })
}

// holds waits until a deployment is held.
func (s *site) holds(name, text string) {
	s.Helper()
	s.Says(name, fleet.ConditionDeployed, release.ReasonManagerBehind, text)
}

// values returns the data of the running ConfigMaps, by deployment.
func (s *site) values(names ...string) map[string]string {
	s.Helper()
	out := map[string]string{}
	for _, name := range names {
		out[name] = s.Data(s.Home(name), "a")
	}
	return out
}

func laterEpoch(s *site) {
	names := []string{"older", "same", "ordered", "young"}
	for _, name := range names {
		s.asks(name, "one")
	}
	s.Start()
	for _, name := range names {
		s.State(name, fleet.Ready)
	}
	s.asks("older", "two")
	s.State("older", fleet.Ready)
	runs := map[string]string{"older": "two", "same": "one", "ordered": "one", "young": "one"}

	s.Stop()
	since := s.Moment()
	s.answersTo(fmt.Sprintf("m1/2/%d", fleet.ProtocolVersion))
	s.asksAgain("older", "one")
	s.asksAgain("same", "one")
	s.asksAgain("ordered", "one")
	s.Withdraw("ordered", "o1")
	s.DeleteDeployment("young")
	s.Start()
	s.holds("older", "older state")
	s.holds("ordered", "orders a removal")
	if bd := s.State("same", fleet.Ready); bd.Status.Release != s.Home("same")+"/same:1" {
		s.Errorf("deployed again: %q", bd.Status.Release)
	}
	s.Until("what is missing is an orphan", func() bool { return slices.Equal(s.Orphans(), []string{"young"}) })

	harness.Edit(s.TB, s.Hub, s.Deployments, "older", func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "later:staged" })
	s.Restart()
	s.Until("it has seen the object that is newer, and asks for the same", func() bool {
		bd := s.Deployment("older")
		return slices.ContainsFunc(bd.Status.Conditions, func(c fleet.Condition) bool {
			return c.Reason == release.ReasonManagerBehind && c.ObservedGeneration == bd.Generation
		})
	})
	if diff := cmp.Diff(runs, s.values(names...)); diff != "" {
		s.Errorf("-want +got\n%s", diff)
	}
	if gone := s.Removed(since); len(gone) > 0 {
		s.Errorf("deleted:\n%s", harness.Lines(gone))
	}

	s.asks("older", "two") // it has caught up
	if bd := s.State("older", fleet.Ready); bd.Status.Release != s.Home("older")+"/older:2" {
		s.Errorf("deployed again: %q", bd.Status.Release)
	}
	s.Revive("ordered")
	s.State("ordered", fleet.Ready)
	s.asks("young", "three")
	s.holds("young", "older state") // the agent cannot know that it is younger
	s.asks("older", "one")          // from now on its word counts
	s.State("older", fleet.Ready)
	if got := s.Data(s.Home("older"), "a"); got != "one" {
		s.Errorf("an order of the present epoch is not done: %q", got)
	}
}

// Another manager is believed at once: a fleet may be moved on purpose.
func anotherManager(s *site) {
	s.asks("app", "two")
	s.Start()
	s.State("app", fleet.Ready)
	s.Stop()
	s.answersTo(fmt.Sprintf("m2/1/%d", fleet.ProtocolVersion))
	s.asksAgain("app", "one")
	s.Start()
	s.State("app", fleet.Ready)
	if got := s.Data(s.Home("app"), "a"); got != "one" {
		s.Errorf("it runs %q", got)
	}
}
