// Package kill_test kills agents, with SIGKILL, at every request by which they
// change something, and looks at what the next process makes of it.
package kill_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// TestMain removes the agent's program.
func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveProgram()
	os.Exit(code)
}

var phases = []string{install, upgrade, correct, withdraw}

// What agents do that are killed, and what they find that others have done: on
// one API server, each with an agent of its own.
func TestKill(t *testing.T) {
	hub := harness.NewHub(t, harness.Cluster(t, "kill"))
	whole := newLife(t, hub, "whole", nil)
	whole.live()
	t.Logf("writes: %v", whole.sum)
	t.Run("AtAnyWrite", func(t *testing.T) { killedAtAnyWrite(t, hub, whole.sum) })
	t.Run("Revived", func(t *testing.T) { revivedInTheMiddle(t, hub, whole.sum[withdraw]) })
	t.Run("ByHand", func(t *testing.T) { changedByHand(t, hub) })
}

// The agent is killed before and after every request by which it changes
// something, in its own cluster and at its manager, while it installs, upgrades,
// corrects and removes. The next one ends what was begun: nothing that is wanted
// is removed, nothing stays pending, hooks that are known to have ended are not
// run again; and what is withdrawn goes.
//
// A usual run takes a sample of those points, spread over each phase; with
// FLEET_TEST_SOAK they are taken one after the other until a run ends without a
// kill.
func killedAtAnyWrite(t *testing.T, hub *harness.Hub, sum map[string]int) {
	var mu sync.Mutex
	var all []*life
	report := func(t *testing.T, name string, at map[string]harness.Point) *life {
		l := newLife(t, hub, name, at)
		l.live()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, l)
		return l
	}
	if os.Getenv("FLEET_TEST_SOAK") == "" {
		t.Run("Sample", func(t *testing.T) {
			for i, at := range sample(sum, 8) {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					l := report(t, fmt.Sprint("s", i), at)
					for try := 0; try < 3 && !t.Failed() && len(l.died) < len(phases)-1; try++ { // the last write may come with another one
						l = report(t, fmt.Sprintf("s%d-%d", i, try), l.sooner())
					}
					if len(l.died) < len(phases)-1 {
						t.Errorf("killed in %v only", l.died)
					}
				})
			}
		})
	} else {
		everyWrite(t, report)
	}
	checkDeletions(t, hub, all)
}

// sample spreads n points over the writes of each phase, before and after in
// turns.
func sample(sum map[string]int, n int) []map[string]harness.Point {
	out := make([]map[string]harness.Point, n)
	for i := range out {
		out[i] = map[string]harness.Point{}
		for j, phase := range phases {
			out[i][phase] = harness.Point{Write: (2*i + 1) * sum[phase] / (2 * n), After: (i+j)%2 == 1}
		}
	}
	return out
}

// sooner are the points of a life, but for the phases that its agent has lived
// through, with less writes than the one whose writes were counted: of those the last.
func (l *life) sooner() map[string]harness.Point {
	out := maps.Clone(l.at)
	for phase, n := range l.sum {
		out[phase] = harness.Point{Write: n - 1, After: l.at[phase].After}
	}
	return out
}

// everyWrite takes all points, a few at once.
func everyWrite(t *testing.T, report func(*testing.T, string, map[string]harness.Point) *life) {
	const atOnce = 4
	for k := 0; ; k += atOnce {
		var mu sync.Mutex
		whole := false
		t.Run(fmt.Sprint("From", k), func(t *testing.T) {
			for i := k; i < k+atOnce; i++ {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprint(harness.Point{Write: i, After: after}), func(t *testing.T) {
						t.Parallel()
						at := map[string]harness.Point{}
						for _, phase := range phases {
							at[phase] = harness.Point{Write: i, After: after}
						}
						l := report(t, fmt.Sprintf("k%d-%t", i, after), at)
						mu.Lock()
						defer mu.Unlock()
						whole = whole || len(l.died) == 0
					})
				}
			}
		})
		if whole || t.Failed() {
			t.Logf("killed before and after each of up to %d writes of a phase", k+atOnce)
			return
		}
	}
}

// checkDeletions looks through the audit log: no agent has deleted an object of a
// life that was wanted.
func checkDeletions(t *testing.T, hub *harness.Hub, all []*life) {
	t.Helper()
	list, err := hub.Requests(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	byHome := map[string]*life{}
	for _, l := range all {
		byHome[l.home] = l
	}
	seen := map[string][]string{}
	for _, r := range list {
		l := byHome[r.Namespace]
		if l == nil || r.Resource != "configmaps" || r.Verb != "delete" && r.Verb != "deletecollection" {
			continue
		}
		seen[r.Namespace] = append(seen[r.Namespace], r.Name)
		switch r.Name {
		case "before", "after": // hooks
		case "old":
			if r.At.Before(l.dropped) {
				t.Errorf("deleted before its version was replaced: %s", r)
			}
		default:
			if r.At.Before(l.ordered) {
				t.Errorf("deleted although it was wanted: %s", r)
			}
		}
	}
	for home := range byHome { // the other half: what was to go went by the agent's hand
		for _, name := range []string{"a", "b", "old"} {
			if !slices.Contains(seen[home], name) {
				t.Errorf("%s/%s was not deleted by anybody", home, name)
			}
		}
	}
}

// An order to withdraw is taken back after the agent has died in the middle of
// the removal, before another agent runs: what is left is not removed, and what
// is gone comes back.
func revivedInTheMiddle(t *testing.T, hub *harness.Hub, writes int) {
	for i := range 4 {
		at := map[string]harness.Point{withdraw: {Write: (2*i + 1) * writes / 8, After: i%2 == 1}}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, hub, fmt.Sprint("r", i), at)
			for try := 0; !l.revived() && !t.Failed(); try++ {
				if try == 3 {
					t.Fatal("no agent was killed")
				}
				l = newLife(t, hub, fmt.Sprintf("r%d-%d", i, try), l.sooner())
			}
		})
	}
}

// revived is such a test. It is false if the agent has lived through the removal.
func (l *life) revived() bool {
	l.Helper()
	l.begin()
	left := map[string]bool{}
	var revived time.Time
	l.perform(withdraw, func() { l.Withdraw(bundle, order) }, func() {
		for _, name := range []string{"a", "b", "old"} {
			left[name] = l.Data(l.home, name) != ""
		}
		l.Revive(bundle)
		revived = time.Now()
	}, func() string {
		if !l.died[withdraw] {
			return l.gone()
		}
		for name, there := range left {
			if !there {
				delete(l.uids, name) // it comes back as another object
			}
		}
		return l.deployed(1)
	})
	if !l.died[withdraw] {
		return false
	}
	for _, r := range l.Removed(revived) {
		if r.Resource == "configmaps" && r.Name != "before" && r.Name != "after" {
			l.Errorf("removed although it is wanted again: %s", r)
		}
	}
	return true
}
