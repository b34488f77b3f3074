package rollout

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// rings cuts n targets into partitions of a size, each with a limit.
func rings(n, size, limit int) Shape {
	s := Shape{MaxUnavailable: n, MaxNew: 50}
	for start := 0; start < n; start += size {
		s.Partitions = append(s.Partitions, Partition{
			Name: fmt.Sprintf("ring-%d", len(s.Partitions)+1), Limit: limit, Members: members(start, min(n, start+size))})
	}
	return s
}

// undivided is a rollout without partitions.
func undivided(n, limit int) Shape {
	return Shape{MaxUnavailable: limit, MaxNew: 50, Partitions: []Partition{{Name: Everything, Limit: limit, Members: members(0, n)}}}
}

// TestWholeRollout plays whole rollouts, with agents, heartbeats and a clock, and
// compares their timeline with testdata/TestWholeRollout/<name>.txt. Run with -update
// after a change of rules, and read the difference.
func TestWholeRollout(t *testing.T) {
	const second, minute = time.Second, time.Minute
	scenarios := map[string]func() string{
		// One cluster was offline before, one cannot deploy: with room for two in each
		// ring, neither stops the rest.
		"three-rings": func() string {
			w := newWorld(rings(12, 4, 2), manySites(12, "v1")...)
			w.offline[2], w.sites[2].up = true, false
			w.sites[5].cannot = "v2"
			return w.report(4*minute, 10*second)
		},
		// Both clusters of the first ring cannot deploy: the text says who is waited for.
		"broken-canary": func() string {
			w := newWorld(rings(6, 2, 1), manySites(6, "v1")...)
			w.sites[0].cannot, w.sites[1].cannot = "v2", "v2"
			return w.report(3*minute, 10*second, event{2 * minute, "c01 and c02 are repaired", func() {
				w.sites[0].cannot, w.sites[1].cannot = "", ""
			}})
		},
		// No partition selects c04.
		"forgotten-cluster": func() string {
			var list []*target.Cluster
			sites := manySites(5, "v1")
			for i, s := range sites {
				list = append(list, &target.Cluster{Namespace: "ns", Name: s.name, Labels: map[string]string{"ring": []string{"a", "a", "b", "", "b"}[i]}})
			}
			ring := func(name string) fleet.Partition {
				return fleet.Partition{Name: name, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ring": name}}, MaxUnavailable: number(1)}
			}
			shape, err := Resolve(&fleet.RolloutStrategy{Partitions: []fleet.Partition{ring("a"), ring("b")}}, list)
			if err != nil {
				return err.Error()
			}
			return newWorld(shape, sites...).report(minute, 10*second)
		},
		// Two at a time: the next two when the API server has answered, whatever
		// agents do.
		"max-new-2": func() string {
			shape := undivided(5, 5)
			shape.MaxNew = 2
			w := newWorld(shape, manySites(5, "")...)
			for _, s := range w.sites {
				s.slow = 40 * second
			}
			return w.report(minute, 10*second)
		},
		"max-new-0": func() string {
			shape := undivided(3, 3)
			shape.MaxNew = 0
			w := newWorld(shape, manySites(3, "")...)
			return w.report(20*second, 10*second, event{10 * second, "maxNew is 2", func() { w.shape.MaxNew = 2 }})
		},
		// A pause stages and holds exactly what it is on.
		"paused": func() string {
			w := newWorld(undivided(4, 2), manySites(4, "v1")...)
			pause := func(on bool, sites ...*site) func() {
				return func() {
					for _, s := range sites {
						s.paused = on
					}
				}
			}
			return w.report(minute, 10*second,
				event{0, "cluster c02 is paused", pause(true, w.sites[1])},
				event{10 * second, "the bundle is paused", pause(true, w.sites...)},
				event{30 * second, "the bundle goes on", pause(false, w.sites[0], w.sites[2], w.sites[3])},
				event{50 * second, "cluster c02 goes on", pause(false, w.sites[1])})
		},
		// Agents check in every 15 minutes. One dies as its turn comes; two minutes
		// later the others go on without it.
		"silent": func() string {
			w := newWorld(rings(4, 2, 1), manySites(4, "v1")...)
			w.shape.MaxUnavailable, w.interval = 1, 15*minute
			return w.report(5*minute, 10*second,
				event{0, "the agent of c01 dies", func() { w.sites[0].up = false }},
				event{4 * minute, "and comes back", func() { w.sites[0].up = true }})
		},
		// The same, but the manager is restarted meanwhile: it gives c01 its
		// full two minutes again, and decides the same otherwise.
		"silent-and-restarted": func() string {
			w := newWorld(rings(4, 2, 1), manySites(4, "v1")...)
			w.shape.MaxUnavailable, w.interval = 1, 15*minute
			return w.report(5*minute, 10*second,
				event{0, "the agent of c01 dies", func() { w.sites[0].up = false }},
				event{minute, "the manager is restarted", w.restart})
		},
		// Six of eight clusters are cut off. Two of them are promoted unseen; when the
		// net is back, no more than two and two change at once.
		"outage": func() string {
			w := newWorld(undivided(8, 2), manySites(8, "v1")...)
			for i := 2; i < 8; i++ {
				w.offline[i], w.sites[i].up = true, false
			}
			return w.report(4*minute, 10*second, event{minute, "the net is back", func() {
				for i := 2; i < 8; i++ {
					w.sites[i].up = true
				}
			}})
		},
		// A deployment takes longer than two minutes, but its agent checks in.
		"slow": func() string {
			w := newWorld(undivided(3, 1), manySites(3, "v1")...)
			w.sites[0].slow = 3 * minute
			return w.report(4*minute, 20*second)
		},
	}
	for name, play := range scenarios {
		t.Run(name, func(t *testing.T) { sameAs(t, ".txt", play()) })
	}
}
