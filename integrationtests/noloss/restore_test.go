package noloss

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// The manager's cluster is restored from a backup of its etcd, while the agent
// runs: objects are older than they were, one that was made since is missing, one
// bears an order that was taken back before the agent saw it. Nothing is rolled
// back and nothing is removed; when the manager has caught up, its orders count.
func restored(t *testing.T, hub, old *harness.Hub) {
	s := &site{harness.NewSite(t, old, hub, "restored")}
	names := []string{app, "again", "revived", "removed"}
	for _, name := range names {
		s.Order(name, harness.Order{Files: files("one")})
	}
	s.Start()
	for _, name := range names {
		s.State(name, fleet.Ready)
	}
	s.Stop()
	s.Withdraw("revived", "o1")
	backup := filepath.Join(t.TempDir(), "backup")
	s.Must(old.Real().Backup(t.Context(), backup))

	s.Revive("revived")
	s.Order(app, harness.Order{Files: files("two")})
	s.DeleteDeployment("again")
	s.Order("again", harness.Order{Files: files("two")})
	s.Order("young", harness.Order{Files: files("two")})
	s.Start()
	for _, name := range append(names, "young") {
		s.State(name, fleet.Ready)
	}
	s.Withdraw("removed", "o2")
	s.Answered("removed", "o2")
	s.DeleteDeployment("removed")
	names = names[:3]
	before, since := s.objects(), s.Moment()

	s.Must(old.Real().Restore(t.Context(), backup))

	s.Until("the agent notices", func() bool { return s.Contact()["restored"] != "" })
	notices := func() {
		s.Says(app, fleet.ConditionDeployed, release.ReasonManagerBehind, "older state")
		s.Says("again", fleet.ConditionDeployed, release.ReasonManagerBehind, "older state")
		s.Says("removed", fleet.ConditionDeployed, release.ReasonManagerBehind, "may have been removed since")
		s.Says("revived", fleet.ConditionDeployed, release.ReasonManagerBehind, "orders a removal")
		s.orphaned("young")
	}
	notices()
	s.Restart()
	notices()
	s.unharmed(before, since)
	for _, name := range []string{app, "again", "young"} {
		if got := s.Data(s.Home(name), "a"); got != "two" {
			t.Errorf("%s was rolled back to %q", name, got)
		}
	}

	s.Withdraw("removed", "o3") // gitjob has read the repository
	s.Answered("removed", "o3")
	names = append(names, "young")
	s.Revive("revived")
	for _, name := range names {
		value := "two"
		if name == "revived" {
			value = "one"
		}
		s.Order(name, harness.Order{Files: files(value)})
		bd := s.State(name, fleet.Ready)
		if revision := map[string]string{app: "2", "again": "2"}[name]; revision != "" && bd.Status.Release != s.Home(name)+"/"+name+":"+revision {
			t.Errorf("%s was deployed again: %q", name, bd.Status.Release)
		}
	}
	s.unharmed(before, since)
	s.Until("no orphan is left", func() bool { return len(s.Orphans()) == 0 })
	for i, name := range slices.Sorted(slices.Values(names)) {
		s.Withdraw(name, string(rune('a'+i)))
		s.Answered(name, string(rune('a'+i)))
	}
	if left := s.objects(); len(left) > 0 {
		t.Errorf("left of what was ordered to go: %v", left)
	}
}
