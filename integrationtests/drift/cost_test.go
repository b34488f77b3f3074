package drift

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

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

// hot is the story of objects that change twenty times a second. What does not
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
	const seconds, rate = 6, 20
	home, begin := w.Home("hot"), time.Now()
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for i := range seconds * rate {
		<-tick.C
		w.patch(object{kind: "v1/ConfigMap", namespace: home, name: "note"}, "ticker", fmt.Sprintf(`{"metadata":{"annotations":{"ticker/at":"%d"}}}`, i))
		w.patch(object{kind: "hot.example/v1/Thing", namespace: home, name: "thing"}, "operator", fmt.Sprintf(`{"status":{"beat":%d}}`, i), "status")
		w.patch(object{kind: "v1/ConfigMap", namespace: home, name: "data"}, intruder, fmt.Sprintf(`{"data":{"k":"%d"}}`, i))
	}
	last := fmt.Sprint(`"`, seconds*rate-1, `"`)
	w.Until("the last value is told", func() bool {
		m, ok := changes(w.Deployment("hot"))["ConfigMap data"]
		return ok && m.Changes[0].Live == last
	})
	took := time.Since(begin).Seconds()
	reads := map[string]int{}
	for _, r := range w.requests(begin, func(r harness.Request) bool { return r.Namespace == home && !r.Writes() }) {
		if r.Verb == "list" {
			reads["release"]++
			continue
		}
		reads[r.Name]++
	}
	w.Logf("in %.1f s of %d changes a second: reads %v, writes of the status %d", took, rate, reads, len(w.statuses("hot", begin)))
	if reads["note"] > 1 {
		w.Errorf("an annotation that nobody wants was reason for %d reads", reads["note"])
	}
	for name, least := range map[string]int{"thing": 2, "data": 2, "release": 2} {
		most := int(took) + 2
		if name == "release" {
			most *= 4 // looks of the same deployment are taken together
		}
		if reads[name] > most || reads[name] < least {
			w.Errorf("%s was read %d times in %.1f s, want %d to %d", name, reads[name], took, least, most)
		}
	}
	if n := len(w.statuses("hot", begin)); n > int(took)+2 {
		w.Errorf("%d writes of the status in %.1f s", n, took)
	}
	oneWatch(w)
}

// oneWatch looks that the agent has one watch of a kind, of labelled objects, whatever
// the number of releases.
func oneWatch(w *world) {
	w.Helper()
	watches := map[string]int{}
	for _, r := range w.requests(time.Time{}, func(r harness.Request) bool {
		return r.Verb == "watch" && r.Namespace == "" && strings.Contains(r.Agent, "(deploy)")
	}) {
		watches[r.Resource]++
	}
	if watches["configmaps"] != 1 || watches["things"] != 1 {
		w.Errorf("watches by kind: %v, want one of configmaps and one of things", watches)
	}
}

// writes is the story of what a status costs: one write for a deployment that is
// healthy within a second, two for one that takes longer, none for what means
// nothing.
func writes(w *world) {
	w.Order("kind", harness.Order{Files: []string{"kind.yaml", fmt.Sprintf(kindThing, "writes", "writes")}})
	w.State("kind", fleet.Ready)
	thing := func(name string) (object, harness.Order) {
		o := object{kind: "writes.example/v1/Thing", namespace: w.Home(name), name: "thing"}
		return o, harness.Order{Files: []string{"thing.yaml", "apiVersion: writes.example/v1\nkind: Thing\nmetadata: {name: thing}\nspec: {size: 1}\n"}}
	}
	for name, c := range map[string]struct {
		after time.Duration
		want  int
	}{"quick": {200 * time.Millisecond, 1}, "slow": {2500 * time.Millisecond, 2}} {
		o, order := thing(name)
		begin := time.Now()
		w.Order(name, order)
		w.Until("the thing is there", func() bool { return w.get(o) != nil })
		w.patch(o, "operator", `{"status":{"conditions":[{"type":"Ready","status":"False","message":"coming"}]}}`, "status")
		for i := range 5 { // on its way, in texts that differ
			time.Sleep(c.after / 5) // how long the operator takes
			w.patch(o, "operator", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","message":"%d of 5"}]}}`, i), "status")
		}
		w.patch(o, "operator", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
		w.State(name, fleet.Ready)
		got := w.statuses(name, begin)
		if name == "quick" && len(got) != 1 || name == "slow" && (len(got) < c.want || len(got) > 4) {
			w.Errorf("%s: %d writes of the status, want %d:\n%s", name, len(got), c.want, harness.Lines(got))
		}
	}
	// What means the same as before is written by nobody.
	o, _ := thing("quick")
	begin := time.Now()
	for i := range 20 {
		w.patch(o, "operator", fmt.Sprintf(`{"status":{"beat":%d}}`, i), "status")
	}
	w.patch(o, intruder, `{"spec":{"size":2}}`)
	w.State("quick", fleet.Modified)
	if got := w.statuses("quick", begin); len(got) != 1 {
		w.Errorf("%d writes of the status, want 1:\n%s", len(got), harness.Lines(got))
	}
}

// times are how long it took until drift was told.
type times struct {
	mu   sync.Mutex
	list []time.Duration
	max  string
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
	w.Logf("drift of %d objects told after: median %s, slowest %s (%s)", n, t.list[n/2].Round(time.Millisecond), t.list[n-1].Round(time.Millisecond), t.max)
	limit := 2 * time.Second
	if overloaded() {
		limit = 15 * time.Second
	}
	if t.list[n-1] > limit {
		w.Errorf("drift of %s was told after %s, more than %s", t.max, t.list[n-1], limit)
	}
}

// overloaded tells whether more than twice as many processes want to run as the
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
