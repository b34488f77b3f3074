package integrationtests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func connect(t *testing.T, server *cluster.Cluster) *kube.Client {
	t.Helper()
	c, err := kube.Connect(kube.Config{REST: server.REST(), UserAgent: "test/v0", FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"port": "kube"}}, Data: data}
}

// until waits for a condition with a deadline; it is asked again after every
// signal and every 20 ms.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.NewTimer(harness.Timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// What package kube promises, on a real API server.
func kubePort(t *testing.T, server *cluster.Cluster) {
	c := connect(t, server)
	ctx := t.Context()
	maps := kube.StoreOf[*corev1.ConfigMap](c)

	t.Run("GoneIsNamed", func(t *testing.T) {
		_, err := maps.Get(ctx, kube.Key{Namespace: "default", Name: "nothing"})
		if !errors.Is(err, kube.ErrGone) {
			t.Errorf("want ErrGone, got %v", err)
		}
		if err := maps.Delete(ctx, kube.Key{Namespace: "default", Name: "nothing"}, kube.Precondition{}); err != nil {
			t.Errorf("deleting what is gone is no error, got %v", err)
		}
	})

	t.Run("PatchRefusesOldNews", func(t *testing.T) {
		made, err := maps.Create(ctx, configMap("patched", map[string]string{"a": "1", "b": "1"}))
		if err != nil {
			t.Fatal(err)
		}
		same, err := maps.Patch(ctx, made, made.DeepCopy())
		if err != nil || same.ResourceVersion != made.ResourceVersion {
			t.Errorf("a patch without a difference wrote something: %v", err)
		}
		changed := made.DeepCopy()
		delete(changed.Data, "b")
		now, err := maps.Patch(ctx, made, changed)
		if err != nil || now.Data["b"] != "" || now.Data["a"] != "1" {
			t.Fatalf("want b removed and a kept, got %v, %v", now, err)
		}
		late := made.DeepCopy()
		late.Data["a"] = "2"
		if _, err := maps.Patch(ctx, made, late); !kube.IsConflict(err) {
			t.Errorf("a patch of an old version must be refused, got %v", err)
		}
		if err := maps.Delete(ctx, kube.KeyOf(made), kube.Precondition{UID: "other"}); !kube.IsConflict(err) {
			t.Errorf("a deletion of another object must be refused, got %v", err)
		}
	})

	t.Run("ApplyTakesOver", func(t *testing.T) {
		if _, err := maps.Apply(ctx, configMap("applied", map[string]string{"a": "1", "b": "1"})); err != nil {
			t.Fatal(err)
		}
		now, err := maps.Apply(ctx, configMap("applied", map[string]string{"a": "2"}))
		if err != nil || now.Data["a"] != "2" || len(now.Data) != 1 {
			t.Errorf("want only a=2, got %v, %v", now, err)
		}
	})

	t.Run("UnknownKindWaits", func(t *testing.T) {
		live, err := kube.NewLive(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = live.ScopeOf(ctx, schema.GroupVersionKind{Group: "nobody.example", Version: "v1", Kind: "Thing"})
		if !reconcile.IsRequeue(err) {
			t.Errorf("a kind without CRD may come: want a wait, got %v", err)
		}
		obj, err := live.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), kube.Key{Name: "default"})
		if err != nil || kube.Summarize(obj).State != "active" {
			t.Errorf("want the namespace active, got %v", err)
		}
	})
}

// What the server in memory of package kubetest does, a real API server does.
func kubeTest(t *testing.T, server *cluster.Cluster) { kubetest.Conform(t, server.REST(), nil) }

func kubeTestRights(t *testing.T, server *cluster.Cluster) {
	kubetest.ConformRights(t, server.REST(), nil)
}

// A cache holds what its watch selects, stripped, and reports changes in order
// with the old and the new state.
func kubeCache(t *testing.T, server *cluster.Cluster) {
	c := connect(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	maps := kube.StoreOf[*corev1.ConfigMap](c)
	managers := map[string]bool{}
	var mu sync.Mutex
	var seen []string
	cached := kube.NewCache(c, kube.Watch{Namespace: "default", Labels: "watched=yes"}, func(m *corev1.ConfigMap) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range m.ManagedFields {
			managers[f.Manager] = true
		}
		m.BinaryData = nil
	})
	cached.Index("color", func(m *corev1.ConfigMap) []string { return []string{m.Data["color"]} })
	cached.OnChange(func(old, changed *corev1.ConfigMap) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case old == nil:
			seen = append(seen, "add "+changed.Name)
		case changed == nil:
			seen = append(seen, "delete "+old.Name)
		default:
			seen = append(seen, old.Data["color"]+" to "+changed.Data["color"])
		}
	})
	worked := make(chan kube.Key, 10)
	loop := kube.NewController("test", 2, func(_ context.Context, key kube.Key) (kube.Result, error) {
		worked <- key
		return kube.Done, nil
	})
	loop.Add(kube.Key{Name: "early"}) // waits until the cache is synced
	finished := make(chan error, 1)
	go func() { finished <- kube.Run(ctx, nil, loop, cached) }()
	<-worked
	if !cached.HasSynced() {
		t.Error("the loop ran before the cache was synced")
	}

	watched := configMap("watched", map[string]string{"color": "red"})
	watched.Labels["watched"] = "yes"
	watched.BinaryData = map[string][]byte{"heavy": make([]byte, 10)}
	made, err := maps.Create(ctx, watched)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "red in the index", func() bool { return len(cached.ByIndex("color", "red")) == 1 })
	got, _ := cached.Get(kube.KeyOf(made))
	if got.BinaryData != nil || got.ManagedFields != nil {
		t.Error("the diet was not kept")
	}
	if !managers["test"] {
		t.Error("the diet did not see managedFields")
	}
	blue := made.DeepCopy()
	blue.Data["color"] = "blue"
	if _, err := maps.Patch(ctx, made, blue); err != nil {
		t.Fatal(err)
	}
	until(t, "blue in the index", func() bool { return len(cached.ByIndex("color", "blue")) == 1 })
	if err := maps.Delete(ctx, kube.KeyOf(made), kube.Precondition{UID: made.UID}); err != nil {
		t.Fatal(err)
	}
	until(t, "all three changes", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(seen, []string{"add watched", "red to blue", "delete watched"})
	})
	meta := kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("ConfigMap"), kube.Watch{Namespace: "kube-system"}, nil)
	go func() { _ = meta.Run(ctx) }()
	until(t, "metadata cache", func() bool { return meta.HasSynced() && len(meta.List("kube-system")) > 0 })
	cancel()
	if err := <-finished; err != nil {
		t.Errorf("want a clean end, got %v", err)
	}
}

// Only one holder works at a time; the next one starts as soon as the first
// has finished, not when its lease runs out.
func kubeLease(t *testing.T, server *cluster.Cluster) {
	c := connect(t, server)
	lease := func(id string) kube.Lease {
		return kube.Lease{Namespace: "default", Name: "lease", Identity: id, Retry: 200 * time.Millisecond, Renew: 100 * time.Second, Duration: 2 * time.Minute}
	}
	first, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	var mu sync.Mutex
	working := map[string]bool{}
	work := func(id string, started chan<- string) func(context.Context) error {
		return func(ctx context.Context) error {
			mu.Lock()
			working[id] = true
			if len(working) > 1 {
				t.Errorf("two work at once: %v", working)
			}
			mu.Unlock()
			started <- id
			<-ctx.Done()
			mu.Lock()
			delete(working, id)
			mu.Unlock()
			return nil
		}
	}
	started, ended := make(chan string, 2), make(chan error, 2)
	go func() { ended <- kube.Lead(first, c, lease("one"), work("one", started)) }()
	if id := <-started; id != "one" {
		t.Fatalf("want one, got %s", id)
	}
	second, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	go func() { ended <- kube.Lead(second, c, lease("two"), work("two", started)) }()
	handover := time.Now()
	stopFirst()
	if id := <-started; id != "two" {
		t.Fatalf("want two, got %s", id)
	}
	if took := time.Since(handover); took > time.Minute {
		t.Errorf("handover took %s: the lease was not given back", took)
	}
	stopSecond()
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("want a clean end, got %v", err)
		}
	}
	never, cancel := context.WithCancel(t.Context())
	cancel()
	if err := kube.Lead(never, c, lease("three"), work("three", started)); err != nil {
		t.Errorf("one who never leads ends cleanly, got %v", err)
	}
}

// leaseReads counts reads of leases that were answered, and watches that were begun.
type leaseReads struct {
	http.RoundTripper
	gets, watches atomic.Int32
}

func (r *leaseReads) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	switch {
	case req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/leases"):
	case req.URL.Query().Has("watch"):
		r.watches.Add(1)
	default:
		r.gets.Add(1)
	}
	return resp, err
}

// A lease that is watched is taken when it is given back, however seldom it is
// asked for: an agent that is upgraded is without a leader for a moment only.
func kubeLeaseWatched(t *testing.T, server *cluster.Cluster) {
	lease := func(id string) kube.Lease {
		return kube.Lease{Namespace: "default", Name: "watched", Identity: id, Retry: time.Minute, Renew: 100 * time.Second, Duration: 2 * time.Minute, Watched: true}
	}
	ended := make(chan error, 3)
	lead := func(id string, asked *leaseReads) (stop func(), led <-chan time.Time) {
		ctx, cancel := context.WithCancel(t.Context())
		rest := server.REST()
		rest.Wrap(func(rt http.RoundTripper) http.RoundTripper { asked.RoundTripper = rt; return asked })
		c, err := kube.Connect(kube.Config{REST: rest, UserAgent: "test/v0", FieldManager: "test"})
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan time.Time, 1)
		go func() {
			ended <- kube.Lead(ctx, c, lease(id), func(ctx context.Context) error {
				began <- time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		return cancel, began
	}
	stop, led := lead("zero", &leaseReads{})
	<-led
	for _, id := range []string{"one", "two"} {
		asked := &leaseReads{}
		next, nextLed := lead(id, asked)
		until(t, id+" has asked for the lease in vain", func() bool { return asked.gets.Load() > 1 && asked.watches.Load() > 0 })
		gave := time.Now()
		stop()
		if took := (<-nextLed).Sub(gave); took > 30*time.Second {
			t.Errorf("%s led %s after the lease was given back", id, took)
		}
		stop = next
	}
	stop()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Errorf("want a clean end, got %v", err)
		}
	}
}

// refuseOnce answers the first request that gives a lease back with a conflict,
// as if a renewal had come before it.
type refuseOnce struct {
	http.RoundTripper
	once sync.Once
}

func (r *refuseOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/leases/") {
		return r.RoundTripper.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	var refusal *http.Response
	if bytes.Contains(body, []byte(`"holderIdentity":""`)) {
		r.once.Do(func() {
			refusal = &http.Response{
				StatusCode: http.StatusConflict, Request: req, ProtoMajor: 1, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)),
			}
		})
	}
	if refusal != nil {
		return refusal, nil
	}
	return r.RoundTripper.RoundTrip(req)
}

// A lease is given back even where the first attempt meets a conflict.
func kubeLeaseConflict(t *testing.T, server *cluster.Cluster) {
	rest := server.REST()
	rest.ContentType = "application/json" // what the test can read
	refuse := &refuseOnce{}
	rest.Wrap(func(rt http.RoundTripper) http.RoundTripper { refuse.RoundTripper = rt; return refuse })
	c, err := kube.Connect(kube.Config{REST: rest, UserAgent: "test/v0", FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l := kube.Lease{Namespace: "default", Name: "refused", Identity: "one"}
	if err := kube.Lead(t.Context(), c, l, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	have, err := kube.StoreOf[*coordinationv1.Lease](c).Get(t.Context(), kube.Key{Namespace: "default", Name: "refused"})
	if err != nil {
		t.Fatal(err)
	}
	if have.Spec.HolderIdentity == nil || *have.Spec.HolderIdentity != "" {
		t.Errorf("the lease is still held: %+v", have.Spec)
	}
	refuse.once.Do(func() { t.Error("no attempt was refused") })
}

// An event names its source and its object.
func kubeEvent(t *testing.T, server *cluster.Cluster) {
	c := connect(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, err := kube.StoreOf[*corev1.ConfigMap](c).Create(ctx, configMap("eventful", nil))
	if err != nil {
		t.Fatal(err)
	}
	recorder := kube.NewRecorder(c, "test")
	go func() { _ = recorder.Run(ctx) }()
	recorder.Event(made, kube.Warning, "Happened", "something happened")
	events := kube.StoreOf[*eventsv1.Event](c)
	until(t, "the event", func() bool {
		list, err := events.List(ctx, "default", "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(e *eventsv1.Event) bool {
			return e.Reason == "Happened" && e.Regarding.UID == made.UID && e.Regarding.Kind == "ConfigMap" &&
				e.ReportingController == "fleet.cattle.io/test" && e.Note == "something happened"
		})
	})
}
