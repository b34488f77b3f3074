package agent

import (
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// What the manager orders counts more than the configuration, and what it wishes
// less.
func TestMode(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	read := func(text string) *heartbeat.Schedule {
		s, err := heartbeat.Read(&fleet.ClusterCheckIn{Mode: heartbeat.ModePoll, Schedule: text}, time.LoadLocation, now)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	nightly, hourly := &fleet.ClusterCheckIn{Mode: "poll", Schedule: "0 3 * * *"}, &fleet.ClusterCheckIn{Mode: "poll", Schedule: "@hourly"}
	cases := map[string]struct {
		why      string
		cfg      Config
		reported time.Duration
		ordered  *fleet.ClusterCheckIn
		within   time.Duration // the next one is not later than that
		beyond   time.Duration // and the one after it at least that much later
		polls    bool
		changed  bool
		fails    bool
	}{
		"Default":   {"a minute", Config{}, 0, nil, time.Minute, time.Minute, false, false, false},
		"Told":      {"as its manager says", Config{}, 15 * time.Minute, nil, 15 * time.Minute, 15 * time.Minute, false, false, false},
		"Own":       {"an interval of its own is kept", Config{CheckinInterval: 10 * time.Second}, 15 * time.Minute, nil, 10 * time.Second, 10 * time.Second, false, false, false},
		"Given":     {"a schedule of its own", Config{Poll: read("@hourly")}, time.Minute, nil, time.Hour + time.Minute, 50 * time.Minute, true, false, false},
		"Ordered":   {"the Cluster's schedule", Config{}, time.Minute, hourly, time.Hour + time.Minute, 50 * time.Minute, true, true, false},
		"OverGiven": {"which counts more than its own", Config{Poll: read("@hourly")}, 0, nightly, 14 * time.Hour, 23 * time.Hour, true, true, false},
		"Watch":     {"also where it is none", Config{Poll: read("@hourly")}, 0, &fleet.ClusterCheckIn{Mode: "watch"}, time.Minute, time.Minute, false, true, false},
		"Same":      {"the same again is no change", Config{Poll: read("@hourly")}, 0, hourly, time.Hour + time.Minute, 50 * time.Minute, true, false, false},
		"Nonsense":  {"what makes no sense changes nothing", Config{Poll: read("@hourly")}, 0, &fleet.ClusterCheckIn{Mode: "poll"}, time.Hour + time.Minute, 50 * time.Minute, true, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newConnectionMode(c.cfg)
			_, changes := m.current()
			if got := m.setInterval(c.reported); got != (c.reported != 0 && c.cfg.CheckinInterval == 0) || m.setInterval(c.reported) {
				t.Errorf("news: %v", got)
			}
			changed, err := m.setSchedule(c.ordered, now)
			if changed != c.changed || (err != nil) != c.fails {
				t.Errorf("%s: changed %v, %v", c.why, changed, err)
			}
			select {
			case <-changes:
			default:
				if c.changed {
					t.Error("nobody was told")
				}
			}
			first := m.next("ns/c1", now)
			second := m.next("ns/c1", first)
			if first.After(now.Add(c.within)) || second.Sub(first) < c.beyond || m.polls() != c.polls {
				t.Errorf("%s: %s, then %s later; %s", c.why, first, second.Sub(first), m)
			}
			// The order is taken back: its own configuration counts again.
			if again, err := m.setSchedule(nil, now); again != c.changed || err != nil || m.polls() != (c.cfg.Poll != nil) {
				t.Errorf("taken back: %v, %v; %s", again, err, m)
			}
		})
	}
}
