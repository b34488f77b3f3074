package looptest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"k8s.io/client-go/util/retry"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// A World is an API server in memory, the process of a loop, and a user, in a bubble of
// fake time.
type World struct {
	*testing.T
	Server *kubetest.Server
	User   *kube.Client

	loop    Loop
	process *process
	dies    int // after how many writes the first process ends; 0: it does not
	starts  int
}

// play runs f in a World in which the loop runs.
func (l Loop) play(t *testing.T, prepare, f func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		w := &World{T: t, Server: s, User: s.Connect("user"), loop: l}
		if l.Given != nil {
			l.Given(w)
		}
		prepare(w)
		w.Start()
		defer w.Stop()
		f(w)
	})
}

// process is a running process: the requests that it sends go through it.
type process struct {
	next   *kubetest.Server
	writes atomic.Int64
	dies   int64
	dead   atomic.Bool
	stop   func() error
}

// errDead is the error of requests of a process that has ended.
var errDead = errors.New("this process has ended")

// RoundTrip sends a request, unless the process has ended. It ends the process after
// its last write, before the answer.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	resp, err := p.next.RoundTrip(req)
	if err != nil || req.Method == http.MethodGet || strings.Contains(req.URL.Path, "/events") {
		return resp, err
	}
	if p.writes.Add(1) == p.dies {
		p.dead.Store(true)
		_ = resp.Body.Close()
		return nil, errDead
	}
	return resp, nil
}

// Start starts a new process, with empty memory.
func (w *World) Start() {
	w.Helper()
	p := &process{next: w.Server}
	if w.starts == 0 {
		p.dies = int64(w.dies)
	}
	w.starts++
	cfg := w.Server.REST()
	cfg.WrapTransport = func(http.RoundTripper) http.RoundTripper { return p }
	c, err := kube.Connect(kube.Config{REST: cfg, UserAgent: agent + "/v0", FieldManager: agent})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, w.loop.Start(c)...) }()
	p.stop = func() error {
		cancel()
		return <-done
	}
	w.process = p
	time.Sleep(time.Second) // kube.Run looks every 10 ms whether the caches are filled
	synctest.Wait()
}

// Stop ends the process, and waits for its end.
func (w *World) Stop() {
	w.Helper()
	if err := w.process.stop(); err != nil && !w.process.dead.Load() {
		w.Error(err)
	}
}

// Restart ends the process, and starts a new one.
func (w *World) Restart() {
	w.Helper()
	w.Stop()
	w.Start()
}

// Pass lets time pass, in which the controllers of the cluster work. It starts a
// process that has ended again.
func (w *World) Pass(d time.Duration) {
	w.Helper()
	for passed := time.Duration(0); passed < d; {
		step := time.Second
		if passed >= outage {
			step = 20 * time.Second // by now it has come to rest
		}
		step = min(step, d-passed)
		time.Sleep(step)
		synctest.Wait()
		if w.process.dead.Load() {
			w.Restart()
		}
		w.Server.FillAccountTokens()
		w.Server.CollectGarbage()
		synctest.Wait()
		passed += step
	}
}

// Rests checks that nothing is written for some time, except regular writes.
func (w *World) Rests(d time.Duration) {
	w.Helper()
	before := len(w.Server.Writes())
	w.Pass(d)
	if now := slices.DeleteFunc(w.Server.Writes()[before:], w.loop.Regular); len(now) > 0 {
		w.Errorf("want nothing written any more, got %v", now)
	}
}

// Must ends the test if err is not nil.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Make creates an object as the user.
func Make[P kube.Object](w *World, o P) P {
	w.Helper()
	made, err := kube.StoreOf[P](w.User).Create(w.Context(), o)
	w.Must(err)
	return made
}

// Read reads an object; it returns the zero value if there is none.
func Read[P kube.Object](w *World, namespace, name string) P {
	w.Helper()
	o, err := kube.StoreOf[P](w.User).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	w.Must(kube.IgnoreGone(err))
	if err != nil {
		var none P
		return none
	}
	return o
}

// Names returns the names of the objects of a kind in a namespace, sorted by the
// server.
func Names[P kube.Object](w *World, namespace string) []string {
	w.Helper()
	list, err := kube.StoreOf[P](w.User).List(w.Context(), namespace, "")
	w.Must(err)
	var out []string
	for _, o := range list {
		out = append(out, o.GetName())
	}
	return out
}

// Change patches an object and its status as the user. After a conflict it tries again.
func Change[P kube.Object](w *World, namespace, name string, change func(P)) {
	w.Helper()
	store, key := kube.StoreOf[P](w.User), kube.Key{Namespace: namespace, Name: name}
	w.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		have, err := store.Get(w.Context(), key)
		if err != nil {
			return err
		}
		changed := have.DeepCopyObject().(P)
		change(changed)
		if have, err = store.Patch(w.Context(), have, changed); err != nil {
			return err
		}
		changed = have.DeepCopyObject().(P)
		change(changed)
		_, err = store.PatchStatus(w.Context(), have, changed)
		return err
	}))
}

// Remove deletes an object as the user.
func Remove[P kube.Object](w *World, namespace, name string) {
	w.Helper()
	w.Must(kube.StoreOf[P](w.User).Delete(w.Context(), kube.Key{Namespace: namespace, Name: name}, kube.Precondition{}))
}

// Events counts the events in a namespace with a reason.
func Events(w *World, namespace, reason string) int {
	w.Helper()
	n := 0
	for _, name := range Names[*eventsv1.Event](w, namespace) {
		if Read[*eventsv1.Event](w, namespace, name).Reason == reason {
			n++
		}
	}
	return n
}
