package fleetstate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// An agent is not missed before it has said that it comes, whatever its clock
// shows.
func TestTimeout(t *testing.T) {
	cases := map[string]struct {
		why  string
		next time.Duration // after lastSeen; 0: it did not say
		want time.Duration
	}{
		"Old":      {"an agent that does not say", 0, 3 * time.Minute},
		"Usual":    {"one that checks in as the manager expects it", time.Minute, 3 * time.Minute},
		"Hasty":    {"one that checks in more often is not missed earlier: check-ins get lost", 10 * time.Second, 3 * time.Minute},
		"Slow":     {"an interval of its own, longer than the manager's", 15 * time.Minute, 17 * time.Minute},
		"Nightly":  {"a schedule", 24 * time.Hour, 24*time.Hour + 6*time.Minute},
		"Nonsense": {"a time that is past already", -time.Hour, 3 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tab, clock := newTable()
			start := clock.now
			seen := start.Add(-7 * time.Hour) // the clock of the cluster was never set
			report := func(version int) *fleet.Cluster {
				obj := signed(version, clock.now)
				obj.Status.Agent.LastSeen = metav1.NewTime(seen)
				if c.next != 0 {
					at := metav1.NewTime(seen.Add(c.next))
					obj.Status.Agent.NextCheckIn = &at
				}
				return obj
			}
			tab.SetCluster(clusterOf("c1", 1))
			tab.SetCluster(report(2))
			for {
				silent, after := tab.MissedDeadline(key("c1"))
				if silent {
					break
				}
				if after <= 0 || after > 3*time.Minute {
					t.Fatalf("asked again after %s", after)
				}
				clock.now = clock.now.Add(after)
			}
			if got := clock.now.Sub(start); got != c.want {
				t.Errorf("%s: missed after %s, want %s", c.why, got, c.want)
			}
			tab.SetOffline(key("c1"))

			// Another manager takes over half way: it waits for what is left.
			again, later := newTable()
			later.now = start.Add(c.want / 2)
			clock.now = start
			obj := report(2)
			again.SetCluster(obj)
			later.now = start.Add(c.want - time.Second)
			if silent, _ := again.MissedDeadline(key("c1")); silent {
				t.Error("missed too early after a restart of the manager")
			}
			later.now = start.Add(c.want)
			if silent, _ := again.MissedDeadline(key("c1")); !silent {
				t.Error("not missed after a restart of the manager")
			}
		})
	}
}

// A cluster that was Offline and comes by a schedule is Online until it is missed
// again, also for a manager that has just started.
func TestTimeoutOfOffline(t *testing.T) {
	tab, clock := newTable()
	obj := signed(2, clock.now.Add(-10*time.Minute))
	obj.Status.Agent.LastSeen = metav1.NewTime(clock.now.Add(-10 * time.Minute))
	at := metav1.NewTime(clock.now.Add(time.Hour))
	obj.Status.Agent.NextCheckIn = &at
	obj.Status.Display.State = fleet.Offline
	tab.SetCluster(obj)
	if a, _ := tab.AgentOf(key("c1")); a.Life != summary.Online {
		t.Error("it has been there ten minutes ago, and comes again in an hour")
	}
}
