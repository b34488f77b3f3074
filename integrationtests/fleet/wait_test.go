package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// A wait for a commit is about what that commit changed and removed, whenever it
// begins, and whenever the manager is killed. With FLEET_TEST_SOAK this goes on for
// 300 commits and 10,200 waits.
func TestWaitsAroundPushes(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("waits")
	for _, name := range []string{"a", "b", "c"} {
		repo.Write(name+"/fleet.yaml", harness.FleetYAML("waits"))
		repo.Write(name+"/settings.yaml", harness.ConfigMapYAML(name, "0"))
	}
	repo.DeployReady("0", 6)
	rounds, each := 6, 3
	if os.Getenv("FLEET_TEST_SOAK") != "" {
		rounds, each = 300, 34
	}
	began := time.Now()
	for i := range rounds {
		var changed, removed []string
		name := string(rune('a' + i%3))
		switch i % 6 {
		case 2:
			repo.Write("README.md", fmt.Sprint(i)) // changes no bundle
		case 4:
			repo.Write("d/fleet.yaml", harness.FleetYAML("waits"))
			repo.Write("d/settings.yaml", harness.ConfigMapYAML("d", "0"))
			changed = []string{"waits-d"}
		case 5:
			repo.Remove("d")
			removed = []string{"waits-d"}
		default:
			repo.Write(name+"/settings.yaml", harness.ConfigMapYAML(name, fmt.Sprint(i+1)))
			changed = []string{"waits-" + name}
		}
		commit := repo.Hold(fmt.Sprint(i))
		var waits sync.WaitGroup
		for range each {
			waits.Go(func() {
				time.Sleep(time.Duration(rand.IntN(1200)) * time.Millisecond) // at a random moment around the poll
				if fault := waitFor(w, commit, changed, removed); fault != "" {
					t.Errorf("commit %d: %s", i, fault)
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		repo.Push()
		if i%3 == 1 {
			time.Sleep(time.Duration(rand.IntN(1100)) * time.Millisecond)
			w.KillManager()
			w.StartManager()
		}
		waits.Wait()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d waits in %s", each*rounds, time.Since(began).Round(time.Second))
}

// waitFor waits for a commit and says what is wrong with the answer.
func waitFor(w *harness.World, commit string, changed, removed []string) string {
	out, notes, err := w.TryCLI("wait", "repo/waits", "-n", "fleet-default", "--commit", commit, "-o", "json", "--timeout", "3m")
	var doc struct {
		Outcome string
		Goals   []struct{ Changed, Removed []string }
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%v: %s%s", err, out, notes)
	case json.Unmarshal([]byte(out), &doc) != nil || len(doc.Goals) != 1:
		return "no answer: " + out
	case !slices.Equal(doc.Goals[0].Changed, changed):
		return fmt.Sprintf("it changed %v: %s%s", changed, out, notes)
	case len(removed) > 0 && len(doc.Goals[0].Removed) > 0 && !slices.Equal(doc.Goals[0].Removed, removed):
		return fmt.Sprintf("it removed %v: %s%s", removed, out, notes)
	}
	return ""
}
