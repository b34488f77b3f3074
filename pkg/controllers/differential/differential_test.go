package differential_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const (
	// batches is how many quiet points a seed has, each after up to batchSize
	// edits.
	batches   = 5
	batchSize = 34
	// soakTime is how long a soak test makes up new seeds.
	soakTime = 10 * time.Minute
)

// TestDifferential compares the manager with the naive recomputation, in one
// world for all seeds, each in a workspace of its own.
func TestDifferential(t *testing.T) {
	seeds, forever := []uint64{1, 2, 3, 4, 5, 6}, os.Getenv("FLEET_TEST_SOAK") != ""
	if text := os.Getenv("FLEET_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("FLEET_TEST_SEED: %v", err)
		}
		seeds, forever = []uint64{seed}, false
	}
	play := func(seed uint64) bool {
		return t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t).play(t, seed) })
		})
	}
	for _, seed := range seeds {
		if !play(seed) {
			return
		}
	}
	for end := time.Now().Add(soakTime); forever && time.Now().Before(end); {
		if !play(rand.Uint64N(1 << 32)) {
			return
		}
	}
}

// play plays the script of one seed. What is wrong ends it: what follows would
// say the same.
func (w *world) play(t *testing.T, seed uint64) {
	outer := w.t
	w.t = t
	defer func() { w.t = outer }()
	w.workspace = fmt.Sprintf("seed-%d", seed)
	w.must(w.namespace(w.workspace))
	w.journal.forget()
	w.budget.forget()
	w.blurred = false
	w.restart()
	m := newModel(seed)
	start, edits := time.Now(), 0
	w.slowest = 0
	for range maxClusters - 2 {
		w.do(m.moveCluster())
	}
	for n := range batches {
		still := stillness
		if n == batches-1 {
			still = longStillness
		}
		edits += w.batch(m, n, seed)
		w.check(seed, still)
		w.line.clear()
	}
	w.end(m, seed)
	t.Logf("seed %d: %d edits, %d quiet points in %s, slowest %s", seed, edits, batches+2, time.Since(start).Round(time.Millisecond), w.slowest.Round(time.Millisecond))
}

// batch plays some edits without waiting for what comes of them, in some kind
// of bad weather.
func (w *world) batch(m *model, n int, seed uint64) int {
	restarts := map[int]bool{}
	size := batchSize/2 + m.rng.IntN(batchSize/2)
	m.calm = true
	bad := one(m, "none", "busy", "faults", "deaf", "held back", "cut", "lost", "restart", "restart", "all")
	w.journal.note("# %d: weather %s", n, bad)
	storm := weather{}
	var lost []string
	switch bad {
	case "busy":
		storm = weather{Busy: 20, Later: 20}
	case "faults":
		storm = weather{Failing: 15, Broken: 15}
	case "deaf":
		storm = weather{Deaf: 25}
	case "held back", "cut", "lost":
		lost = w.resources(m)
	case "restart":
		m.calm, restarts[m.rng.IntN(size)], restarts[m.rng.IntN(size)] = false, true, true
	case "all":
		m.calm, restarts[m.rng.IntN(size)] = false, true
		storm, lost = weather{Busy: 5, Later: 5, Failing: 5, Broken: 5, Deaf: 10}, w.resources(m)
	}
	w.line.storm(storm, 8, seed+uint64(n))
	// Some of what fails, fails at the end, when no other news would bring it again.
	defer func() { w.line.storm(storm.heavy(), 6, seed) }()
	for _, resource := range lost {
		w.line.shut(resource)
	}
	for i := range size {
		w.do(m.next())
		if restarts[i] {
			w.let(m.rng.IntN(6))
			w.journal.note("  restart")
			w.restart()
		}
		if m.percent(30) {
			w.let(1 + m.rng.IntN(5))
		}
	}
	for _, resource := range lost {
		switch bad {
		case "lost", "all":
			w.line.lose(resource)
		case "cut":
			w.line.cut(resource)
			w.line.unshut(resource)
		default:
			w.line.unshut(resource)
		}
	}
	return size
}

// resources are some kinds whose events have trouble to arrive.
func (w *world) resources(m *model) []string {
	all := []string{"bundledeployments", "bundles", "clusters", "clustergroups", "contents", "secrets", "gitrepos"}
	m.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	out := all[:1+m.rng.IntN(3)]
	w.blurred = w.blurred || slices.Contains(out, "secrets")
	w.journal.note("  trouble with %s", strings.Join(out, ", "))
	return out
}

// let gives the manager time for some more requests, if it wants to send any.
func (w *world) let(requests int) {
	from := w.line.tally().requests
	for end := time.Now().Add(5 * look); time.Now().Before(end) && w.line.tally().requests < from+requests; {
		time.Sleep(time.Millisecond) // how often the test looks
	}
}

func (w *world) do(e edit) {
	w.journal.note("  %s", e.text)
	if err := e.do(w); err != nil {
		w.journal.note("    refused: %v", err)
	}
}

// check waits for a quiet point and fails where the two sides disagree.
func (w *world) check(seed uint64, still time.Duration) {
	w.t.Helper()
	start := time.Now()
	wrong := w.quiet(still)
	w.slowest = max(w.slowest, time.Since(start))
	w.journal.note("# quiet after %s", time.Since(start).Round(time.Millisecond))
	if len(wrong) == 0 {
		return
	}
	w.t.Fatalf("seed %d (play it again with FLEET_TEST_SEED=%d):\n%s\n\n%s",
		seed, seed, strings.Join(wrong[:min(len(wrong), 12)], "\n"), w.journal.text())
}

// end deletes all Bundles and demands that nothing of them is left behind.
func (w *world) end(m *model, seed uint64) {
	w.t.Helper()
	w.journal.note("# the end")
	w.do(edit{"brake off", func(w *world) error { return w.setBrake(view.GlobalPause{}) }})
	for i := range maxClusters {
		name := fmt.Sprintf("c%d", i)
		if c := m.clusters[name]; c != nil && c.joined {
			w.agents.set(place{namespace: naming.ClusterNamespace(w.workspace, name)}, good)
		}
	}
	for i := range maxBundles {
		name := fmt.Sprintf("b%d", i)
		w.do(edit{"bundle " + name + " deleted", func(w *world) error { return remove[*fleet.Bundle](w, w.in(name)) }})
	}
	w.check(seed, stillness)
	for _, c := range list[*fleet.Cluster](w, w.workspace, "") {
		w.must(remove[*fleet.Cluster](w, kube.KeyOf(c)))
		w.must(w.dropCluster(c.Name, naming.ClusterNamespace(w.workspace, c.Name)))
	}
	w.check(seed, stillness)
	if left := w.snapshot(); len(left.bundles)+len(left.deployments)+len(left.clusters) > 0 {
		w.t.Errorf("seed %d: left behind: %v %v %v", seed, versions(left.bundles), versions(left.deployments), versions(left.clusters))
	}
}
