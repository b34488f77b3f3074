package drift

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const kindThing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%s.example}
spec:
  group: %s.example
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// hot is the test of objects that change twenty times a second. What does not
// count is not even read; what may count is read once a second at most.
func hot(w *world) {
	for i := range 5 { // several releases, to see that they share their watches
		w.Order(fmt.Sprint("quiet-", i), harness.Order{Files: []string{"a.yaml", cm("a", "x")}})
	}
	w.Order("kind", harness.Order{Files: []string{"kind.yaml", fmt.Sprintf(kindThing, "hot", "hot")}})
	w.State("kind", fleet.Ready)
	w.Order("hot", harness.Order{Files: []string{
		"note.yaml", cm("note", "x"), "data.yaml", cm("data", "x"),
		"thing.yaml", "apiVersion: hot.example/v1\nkind: Thing\nmetadata: {name: thing}\nspec: {size: 1}\n",
	}})
	w.State("hot", fleet.Ready)
	for i := range 5 {
		w.State(fmt.Sprint("quiet-", i), fleet.Ready)
	}
	const seconds, rate, least = 6, 20, 2
	home, begin := w.Home("hot"), time.Now()
	reads := func() map[string]int {
		out := map[string]int{}
		for _, r := range w.requests(begin, func(r harness.Request) bool { return r.Namespace == home && !r.Writes() }) {
			if r.Verb == "list" {
				out["release"]++
				continue
			}
			out[r.Name]++
		}
		return out
	}
	counted := []string{"thing", "data", "release"}
	seen := func() bool { // that there is something to count
		now := reads()
		return !slices.ContainsFunc(counted, func(name string) bool { return now[name] < least })
	}
	tick, last := time.NewTicker(time.Second/rate), 0
	defer tick.Stop()
	for i := 0; i < seconds*rate || i%rate != 0 || !seen() && time.Since(begin) < harness.Timeout; i++ {
		<-tick.C
		last = i
		w.patch(object{kind: "v1/ConfigMap", namespace: home, name: "note"}, "ticker", fmt.Sprintf(`{"metadata":{"annotations":{"ticker/at":"%d"}}}`, i))
		w.patch(object{kind: "hot.example/v1/Thing", namespace: home, name: "thing"}, "operator", fmt.Sprintf(`{"status":{"beat":%d}}`, i), "status")
		w.patch(object{kind: "v1/ConfigMap", namespace: home, name: "data"}, intruder, fmt.Sprintf(`{"data":{"k":"%d"}}`, i))
	}
	w.Until("the last value is reported", func() bool {
		m, ok := changes(w.Deployment("hot"))["ConfigMap data"]
		return ok && m.Changes[0].Live == fmt.Sprint(`"`, last, `"`)
	})
	all, wrote := reads(), len(w.statuses("hot", begin))
	took := time.Since(begin).Seconds()
	w.Logf("in %.1f s of %d changes a second: reads %v, writes of the status %d", took, rate, all, wrote)
	if all["note"] > 1 {
		w.Errorf("an annotation outside of the release caused %d reads", all["note"])
	}
	for _, name := range counted {
		most := int(took) + 2
		if name == "release" {
			most *= 4 // looks of the same deployment are taken together
		}
		if all[name] > most || all[name] < least {
			w.Errorf("%s was read %d times in %.1f s, want %d to %d", name, all[name], took, least, most)
		}
	}
	if wrote > int(took)+2 {
		w.Errorf("%d writes of the status in %.1f s", wrote, took)
	}
	oneWatch(w)
}

// oneWatch looks that the agent has one watch of a kind, of labelled objects, whatever
// the number of releases.
func oneWatch(w *world) {
	w.Helper()
	watches := map[string][]harness.Request{}
	for _, r := range w.requests(time.Time{}, func(r harness.Request) bool {
		return r.Verb == "watch" && r.Namespace == "" && strings.Contains(r.Agent, "(deploy)")
	}) {
		watches[r.Resource] = append(watches[r.Resource], r)
	}
	for _, kind := range []string{"configmaps", "things"} {
		list := watches[kind]
		if len(list) == 0 {
			w.Errorf("no watch of %s", kind)
		}
		slices.SortFunc(list, func(a, b harness.Request) int { return a.At.Compare(b.At) })
		for i, r := range list[:max(0, len(list)-1)] { // an API server ends a watch, which is begun again
			if r.Ended.IsZero() || r.Ended.After(list[i+1].At) {
				w.Errorf("two watches of %s at once:\n%s", kind, harness.Lines(list))
			}
		}
	}
}

// writes is the test of what a status costs: one write for a deployment that is
// healthy within a second, two for one that takes longer, none for what means
// nothing.
func writes(w *world) {
	w.Order("kind", harness.Order{Files: []string{"kind.yaml", fmt.Sprintf(kindThing, "writes", "writes")}})
	w.State("kind", fleet.Ready)
	thing := func(name string) (object, harness.Order) {
		o := object{kind: "writes.example/v1/Thing", namespace: w.Home(name), name: "thing"}
		return o, harness.Order{Files: []string{"thing.yaml", "apiVersion: writes.example/v1\nkind: Thing\nmetadata: {name: thing}\nspec: {size: 1}\n"}}
	}
	says := func(o object, i int) {
		w.Helper()
		w.patch(o, "operator", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","message":"%d of 5"}]}}`, i), "status")
	}
	for name, whole := range map[string]time.Duration{"quick": 200 * time.Millisecond, "slow": 2500 * time.Millisecond} {
		o, order := thing(name)
		begin := time.Now()
		w.Order(name, order)
		w.Until("the thing is there", func() bool { return w.get(o) != nil })
		says(o, 0)
		for i := range 5 { // on its way, in texts that differ
			time.Sleep(whole / 5) // how long the operator takes
			says(o, i+1)
		}
		if name == "slow" {
			w.State(name, fleet.NotReady)
		}
		w.patch(o, "operator", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
		w.State(name, fleet.Ready)
		// What is on its way is worth a write after each second of it, and no sooner.
		least := map[string]int{"quick": 1, "slow": 2}[name]
		var got []harness.Request
		w.Until("its writes are noted", func() bool { got = w.statuses(name, begin); return len(got) >= least })
		most := 1 + int(got[len(got)-1].At.Sub(begin)/time.Second)
		if len(got) > most {
			w.Errorf("%s: %d writes of the status, want %d at most:\n%s", name, len(got), most, harness.Lines(got))
		}
	}
	// The agent writes no status for a change that means the same as before.
	o, _ := thing("quick")
	begin := time.Now()
	for i := range 20 {
		w.patch(o, "operator", fmt.Sprintf(`{"status":{"beat":%d}}`, i), "status")
	}
	w.patch(o, intruder, `{"spec":{"size":2}}`)
	w.State("quick", fleet.Modified)
	var got []harness.Request
	w.Until("the write is noted", func() bool { got = w.statuses("quick", begin); return len(got) > 0 }) // later than it is seen
	if len(got) != 1 {
		w.Errorf("%d writes of the status, want 1:\n%s", len(got), harness.Lines(got))
	}
}

// times are how long it took until the agent reported drift.
type times struct {
	late func() time.Duration // of lateness; nil: all times are the agent's

	mu   sync.Mutex
	list []time.Duration
	max  string
}

// begin begins to take a time, and returns what ends it.
func (t *times) begin(what string) (done func()) {
	if t.late == nil {
		t.late = func() time.Duration { return 0 }
	}
	began, late := time.Now(), t.late()
	return func() { t.add(what, time.Since(began)-(t.late()-late)) }
}

func (t *times) add(what string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list = append(t.list, d); d == slices.Max(t.list) {
		t.max = what
	}
}

func (t *times) report(w *world) {
	w.Helper()
	slices.Sort(t.list)
	n := len(t.list)
	w.Logf("drift of %d objects reported after: median %s, slowest %s (%s)", n, t.list[n/2].Round(time.Millisecond), t.list[n-1].Round(time.Millisecond), t.max)
	limit := 2 * time.Second
	if overloaded() {
		limit = 15 * time.Second
	}
	if t.list[n-1] > limit {
		w.Errorf("drift of %s was reported after %s, more than %s", t.max, t.list[n-1], limit)
	}
}

// overloaded reports whether more than twice as many processes want to run as the
// machine has processors: then nothing can be said about seconds.
func overloaded() bool {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	var load float64
	_, err = fmt.Sscan(string(data), &load)
	return err == nil && load > 2*float64(runtime.NumCPU())
}

// pulse is how often lateness looks.
const pulse = 50 * time.Millisecond

// lateness returns how much time this process and its API server have lost so far,
// on a machine that does other things: as the way of a change to the API server and
// back takes longer than a pulse. An agent that needs several such ways loses at
// least as much.
func (w *world) lateness() func() time.Duration {
	w.Helper()
	maps := w.Down.Client.CoreV1().ConfigMaps(w.Namespace)
	_, err := maps.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pulse"}}, metav1.CreateOptions{})
	w.Must(err)
	var lost atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			body := fmt.Appendf(nil, `{"data":{"at":"%d"}}`, time.Now().UnixNano())
			_, _ = maps.Patch(ctx, "pulse", types.MergePatchType, body, metav1.PatchOptions{})
			now := time.Now()
			lost.Add(int64(max(0, now.Sub(last)-2*pulse)))
			last = now
		}
	}()
	w.Cleanup(func() { stop(); <-done })
	return func() time.Duration { return time.Duration(lost.Load()) }
}
