package drift

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

const service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 9376}]
`

// correction is the test of correctDrift off, on and with force.
func correction(w *world) {
	files := []string{"a.yaml", cm("a", "good"), "s.yaml", service}
	w.Order("off", harness.Order{Files: files})
	w.Order("on", harness.Order{Files: files, Options: on(fleet.CorrectDrift{})})
	w.Order("force", harness.Order{Files: files, Options: on(fleet.CorrectDrift{Force: true})})
	for _, name := range []string{"off", "on", "force"} {
		w.State(name, fleet.Ready)
		a := object{kind: "v1/ConfigMap", namespace: w.Home(name), name: "a"}
		w.patch(a, intruder, `{"data":{"k":"evil","more":"theirs"}}`)
	}
	w.State("off", fleet.Modified)
	for _, name := range []string{"on", "force"} {
		a := object{kind: "v1/ConfigMap", namespace: w.Home(name), name: "a"}
		w.Until("a of "+name+" is put back", func() bool { return w.value(a, "data", "k") == `"good"` })
		if got := w.value(a, "data", "more"); got != `"theirs"` {
			w.Errorf("%s: a field that the release does not set is %s", name, got)
		}
		w.State(name, fleet.Ready)
	}
	if got := w.value(object{kind: "v1/ConfigMap", namespace: w.Home("off"), name: "a"}, "data", "k"); got != `"evil"` {
		w.Errorf("put back without being asked: %s", got)
	}
	// A port that was renumbered under its name cannot be patched back: the patch
	// would add a second port of that name. With force the list is replaced, and
	// the address stays.
	for _, name := range []string{"on", "force"} {
		s := object{kind: "v1/Service", namespace: w.Home(name), name: "web"}
		before := w.value(s, "spec", "clusterIP")
		w.jsonPatch(s, intruder, `[{"op":"replace","path":"/spec/ports/0","value":{"name":"http","port":4242,"targetPort":4242}}]`)
		if name == "on" {
			bd := w.Says(name, fleet.ConditionReady, fleet.ReasonError, "Duplicate value")
			if len(bd.Status.ModifiedStatus) != 1 {
				w.Errorf("the drift itself is not reported: %s", text(bd))
			}
			continue
		}
		w.Until("the port is back", func() bool {
			ports := w.value(s, "spec", "ports")
			return strings.Contains(ports, `"port":80`) && !strings.Contains(ports, "4242")
		})
		if after := w.value(s, "spec", "clusterIP"); after != before || after == "" {
			w.Errorf("the address was %s and is %s", before, after)
		}
		w.State(name, fleet.Ready)
	}
	// Asked for later, it helps the one that was left alone.
	w.Order("off", harness.Order{Files: files, Options: on(fleet.CorrectDrift{})})
	w.State("off", fleet.Ready)
}

// failing is the test of a correction that cannot succeed: the release stays
// what it was, the failed revision goes unless it is to be kept, and the reason
// stands in the status.
func failing(w *world) {
	for name, how := range map[string]fleet.CorrectDrift{"plain": {}, "kept": {KeepFailHistory: true}} {
		w.Order(name, harness.Order{Files: []string{"a.yaml", cm("a", "good"), "b.yaml", cm("b", "good")}, Options: on(how)})
		w.State(name, fleet.Ready)
		maps := w.Down.Client.CoreV1().ConfigMaps(w.Home(name))
		w.Stop() // so that the agent sees the one that cannot be changed, and none missing
		w.Must(maps.Delete(w.Context(), "a", metav1.DeleteOptions{}))
		yes := true
		_, err := maps.Create(w.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Immutable: &yes, Data: map[string]string{"k": "evil"},
		}, metav1.CreateOptions{})
		w.Must(err)
		w.Start()
		w.Says(name, fleet.ConditionReady, fleet.ReasonError, "immutable")
		w.Until("the history is as asked", func() bool {
			failed, err := w.Down.Client.CoreV1().Secrets(w.Home(name)).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=failed"})
			w.Must(err)
			return (len(failed.Items) > 0) == how.KeepFailHistory
		})
		good, err := w.Down.Client.CoreV1().Secrets(w.Home(name)).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed"})
		w.Must(err)
		if len(good.Items) != 1 {
			w.Errorf("%s: %d deployed revisions, want 1", name, len(good.Items))
		}
	}
}

// fight is the test of two that correct each other: after a few tries the agent
// waits longer and longer, says who it is, since when and when it tries again, and
// goes on correcting everything else at once.
func fight(w *world) {
	w.Order("fight", harness.Order{Files: []string{"a.yaml", cm("a", "good"), "b.yaml", cm("b", "good")}, Options: on(fleet.CorrectDrift{})})
	w.State("fight", fleet.Ready)
	a := object{kind: "v1/ConfigMap", namespace: w.Home("fight"), name: "a"}
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	begin, done := time.Now(), make(chan int)
	go func() { done <- w.rival(ctx, a) }()
	who := `rival keeps changing data.k of ConfigMap ` + a.namespace + `/a: put back `
	bd := w.Says("fight", fleet.ConditionContested, fleet.ReasonChangedBack, who)
	c := condition.Find(bd.Status.Conditions, fleet.ConditionContested)
	count := w.count(c.Message, who)
	if count < 3 {
		w.Errorf("contested after %d times: %s", count, c.Message)
	}
	_, since, _ := strings.Cut(c.Message, "since ")
	var from, next time.Time
	for _, word := range strings.Fields(strings.ReplaceAll(since, ",", "")) {
		if at, err := time.Parse(time.RFC3339, word); err == nil {
			if from.IsZero() {
				from = at
			} else {
				next = at
			}
		}
	}
	if from.Before(begin.Add(-time.Second)) || !next.After(from) {
		w.Errorf("since %s, next try %s: %s", from, next, c.Message)
	}
	w.State("fight", fleet.Modified)
	b := object{kind: "v1/ConfigMap", namespace: w.Home("fight"), name: "b"}
	late := w.lateness()
	lost, other := late(), time.Now()
	w.patch(b, intruder, `{"data":{"k":"evil"}}`)
	w.Until("another object is put back meanwhile", func() bool { return w.value(b, "data", "k") == `"good"` })
	if took := time.Since(other) - (late() - lost); took > 4*time.Second && !overloaded() {
		w.Errorf("the fight held up another correction for %s", took)
	}
	w.Until("the next try comes when it was announced", func() bool {
		c := condition.Find(w.Deployment("fight").Status.Conditions, fleet.ConditionContested)
		return c != nil && w.count(c.Message, who) > count
	})
	if early := time.Until(next); early > time.Second {
		w.Errorf("tried again %s before the time", early)
	}
	stop()
	// Three come at once; the others wait 5 s, 10 s, 20 s and so on.
	rounds, took := <-done, time.Since(begin)
	if most := 4 + math.Log2(took.Seconds()/5+1); float64(rounds) > most {
		w.Errorf("%d corrections in %s, want %.1f at most", rounds, took, most)
	}
}

// count is the number in a text after its beginning.
func (w *world) count(text, beginning string) (n int) {
	w.Helper()
	if _, err := fmt.Sscan(strings.TrimPrefix(text, beginning), &n); err != nil {
		w.Fatalf("no number after %q: %q", beginning, text)
	}
	return n
}

// rival changes an object back as soon as it is corrected, until ctx ends, and
// counts how often.
func (w *world) rival(ctx context.Context, o object) int {
	rounds := 0
	patch := []byte(`{"data":{"k":"mine"}}`)
	for ctx.Err() == nil {
		live, err := w.of(o).Get(ctx, o.name, metav1.GetOptions{})
		if err == nil && fmt.Sprint(live.Object["data"]) == "map[k:good]" {
			rounds++
			_, _ = w.of(o).Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "rival"})
		}
		time.Sleep(20 * time.Millisecond) // how often the rival looks
	}
	return rounds
}

// takenOver is the test of objects that another field manager applied, as Helm 4
// does it: who owns a field decides nothing, what the release sets counts.
func takenOver(w *world) {
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: good, l: good}\n"
	w.Order("over", harness.Order{Files: []string{"a.yaml", manifest, "s.yaml", cm(sentinel, "good")}})
	w.State("over", fleet.Ready)
	a := object{kind: "v1/ConfigMap", namespace: w.Home("over"), name: "a"}
	apply := func(data string) {
		w.Helper()
		labels := w.value(a, "metadata", "labels")
		_, err := w.of(a).Patch(w.Context(), "a", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":`+labels+`},"data":`+data+`}`),
			metav1.PatchOptions{FieldManager: "helm", Force: new(true)})
		w.Must(err)
	}
	apply(`{"k":"good","l":"good"}`)
	w.patch(object{kind: "v1/ConfigMap", namespace: w.Home("over"), name: sentinel}, intruder, `{"data":{"k":"one"}}`)
	clean(w, "the same applied by another", w.shows("over", "one"))
	apply(`{"k":"evil","l":"good"}`)
	w.Until("the applied change is reported", func() bool {
		m, ok := changes(w.Deployment("over"))["ConfigMap a"]
		return ok && len(m.Changes) == 1 && m.Changes[0].Field == "data.k" && m.Changes[0].Manager == "helm"
	})
	w.Order("over", harness.Order{Files: []string{"a.yaml", manifest, "s.yaml", cm(sentinel, "good")}, Options: on(fleet.CorrectDrift{})})
	w.Until("it is put back", func() bool { return w.value(a, "data", "k") == `"good"` })
	w.State("over", fleet.Ready)
}
