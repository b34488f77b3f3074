package noloss

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// removals is how many deployments are withdrawn at once, and enough how many of
// them must be left when something else is ordered, to say that it does not wait.
const removals, enough = 60, 20

// Many removals at once are carried out a few at a time: a new version of something
// else does not wait for them.
func manyRemovals(t *testing.T, hub *harness.Hub) {
	s := &site{harness.NewSite(t, hub, hub, "many")}
	s.Start()
	s.app()
	for try := range 3 { // on a machine that does other things all may be gone before anything else is ordered
		behind, left := s.crowd(try)
		if behind < enough {
			continue
		}
		if left == 0 {
			t.Error("the new version came last")
		}
		return
	}
	t.Errorf("less than %d of %d removals are left when something else is ordered", enough, removals)
}

// crowd withdraws many deployments, and then orders a new version of "app". It
// returns how many of them were still to be removed when that was ordered, and when
// it was deployed.
func (s *site) crowd(try int) (behind, left int) {
	s.Helper()
	shared := s.Home(fmt.Sprint("shared", try))
	name := func(i int) string { return fmt.Sprintf("many%d-%02d", try, i) }
	for i := range removals {
		s.Order(name(i), harness.Order{
			Files:   []string{"a.yaml", harness.ConfigMap(name(i), "x")},
			Options: fleet.BundleDeploymentOptions{DefaultNamespace: shared},
		})
	}
	for i := range removals {
		s.State(name(i), fleet.Ready)
	}
	start := s.Moment()
	for i := range removals {
		s.Withdraw(name(i), "o1")
	}
	s.Order(app, harness.Order{Files: files(fmt.Sprint("two", try))})
	ordered := s.Moment()
	s.State(app, fleet.Ready)
	for i := range removals {
		s.Answered(name(i), "o1")
	}
	if got := len(s.objects()); got != 2 {
		s.Errorf("%d objects are left, want those of the one that was not withdrawn", got)
	}
	deployed := s.deployed(start)
	for _, r := range s.Removed(start) {
		if r.Namespace != shared || r.Resource != "configmaps" {
			continue
		}
		if r.At.After(ordered) {
			behind++
		}
		if r.At.After(deployed) {
			left++
		}
	}
	s.Logf("a new version among %d removals: %v, with %d left to remove, of %d when it was ordered", removals, deployed.Sub(start), left, behind)
	return behind, left
}

// deployed is when the agent has written the objects of "app", after a moment.
func (s *site) deployed(since time.Time) time.Time {
	s.Helper()
	list, err := s.Down.Requests(since)
	s.Must(err)
	at := slices.IndexFunc(list, func(r harness.Request) bool {
		return r.Writes() && r.Resource == "configmaps" && r.Namespace == s.Home(app) && r.Name == "a"
	})
	if at < 0 {
		s.Fatal("no client has written app")
	}
	return list[at].At
}
