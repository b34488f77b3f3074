package kube

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// timeout is how long anything may take here that is to come at all. soon is the
// limit of lines that are to reach it.
const (
	timeout = 2 * time.Minute
	soon    = 300 * time.Millisecond
)

// far is a server behind a line.
type far struct {
	*httptest.Server
	line    *Conn
	answer  atomic.Pointer[http.HandlerFunc]
	asked   atomic.Int64 // requests that have arrived
	lost    chan struct{}
	clients map[connMode]*http.Client
}

func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{lost: make(chan struct{}, 100), clients: map[connMode]*http.Client{}}
	f.answers(http.StatusOK)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		(*f.answer.Load())(w, r)
	}))
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	cfg := &rest.Config{Host: f.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	line, err := NewConn(cfg, nil, func() { f.lost <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	line.limit = timeout
	f.line = line
	for _, m := range []connMode{ordinary, probing, patient} {
		client, err := rest.HTTPClientFor(line.use(cfg, m))
		if err != nil {
			t.Fatal(err)
		}
		f.clients[m] = client
	}
	return f
}

// answers makes the server answer with a code.
func (f *far) answers(code int) {
	f.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func (f *far) does(h http.HandlerFunc) { f.answer.Store(&h) }

// get asks in one mode, and returns the code and the text of the answer.
func (f *far) get(ctx context.Context, m connMode, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := f.clients[m].Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// probePath is the path of probes.
const probePath = "/probe"

// isProbed probes the line again and again until the test ends.
func (f *far) isProbed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for Sleep(ctx, soon/10) == nil {
			_, _, _ = f.get(ctx, probing, probePath) // the test does not need its answer; the line does
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// down takes the server off the line by a request that it does not answer.
func (f *far) down(t *testing.T) {
	t.Helper()
	f.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, _, err := f.get(t.Context(), ordinary, "/"); err == nil || f.line.Down() == nil {
		t.Fatalf("the line is not down: %v", err)
	}
	select {
	case <-f.lost:
	case <-time.After(timeout):
		t.Fatal("no caller learns that the line is down")
	}
}

// While a line is down ordinary requests fail at once, unsent, and patient ones
// wait; a probe that gets through lets all of them pass.
func TestLineDown(t *testing.T) {
	f := newFar(t)
	if _, _, err := f.get(t.Context(), ordinary, "/"); err != nil {
		t.Fatal(err)
	}
	f.down(t)
	f.answers(http.StatusOK)
	before := f.asked.Load()
	_, _, err := f.get(t.Context(), ordinary, "/")
	var away net.Error
	if !errors.As(err, &away) || !IsAway(err) {
		t.Errorf("an ordinary request while the line is down: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, _, err := f.get(t.Context(), patient, "/?watch=true")
		waiting <- err
	}()
	select {
	case err := <-waiting:
		t.Fatalf("a patient request did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if n := f.asked.Load() - before; n != 0 {
		t.Errorf("%d requests were sent on a line that is down", n)
	}
	if _, _, err := f.get(t.Context(), probing, "/"); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("a patient request when the line is up: %v", err)
	}
	if _, _, err := f.get(t.Context(), ordinary, "/"); err != nil {
		t.Errorf("an ordinary request when the line is up: %v", err)
	}
}

// A server that takes requests and does not answer, or stops in the middle of an
// answer, blocks no caller for longer than the limit.
func TestLineSilent(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"NoAnswer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"HalfAnAnswer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t)
			f.line.limit = soon
			f.does(handler)
			if _, _, err := f.get(t.Context(), ordinary, "/"); !errors.Is(err, errSilent) || !IsAway(err) {
				t.Errorf("held up until %v", err)
			}
		})
	}
}

// A watch may be silent for long, and looks as if the server had ended it when
// the line does: caches go on from there without a delay of theirs.
func TestLineWatch(t *testing.T) {
	f := newFar(t)
	f.line.limit = soon
	f.isProbed(t) // an answer that begins late takes the line down
	release := make(chan struct{})
	f.does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == probePath {
			return
		}
		_, _ = io.WriteString(w, "first,")
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, "second")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	time.AfterFunc(3*soon, func() { close(release) })
	code, text, err := f.get(t.Context(), patient, "/?watch=true")
	if code != http.StatusOK || text != "first,second" || err != nil {
		t.Errorf("got %d, %q, %v", code, text, err)
	}
	if _, text, err := f.get(t.Context(), patient, "/?watch=0"); err == nil {
		t.Errorf("half a list looks whole: %q", text)
	}
}

// What may be answered otherwise later is asked again; what will not is passed on.
func TestPatientAnswers(t *testing.T) {
	future := `{"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}`
	for name, c := range map[string]struct {
		why   string
		code  int
		text  string
		again bool
	}{
		"Unauthorized": {"revoked and perhaps given back", http.StatusUnauthorized, "", true},
		"Forbidden":    {"rights may come back", http.StatusForbidden, "", true},
		"NotFound":     {"a restored server has its kinds a little later", http.StatusNotFound, "", true},
		"TooMany":      {"too much to do", http.StatusTooManyRequests, "", true},
		"Broken":       {"it may be mended", http.StatusInternalServerError, "", true},
		"Alone":        {"a proxy without its server", http.StatusBadGateway, "", true},
		"Late":         {"a proxy that has waited", http.StatusGatewayTimeout, "<html>", true},
		"Future":       {"the cache has to list again", http.StatusGatewayTimeout, future, false},
		"Gone":         {"the cache has to list again", http.StatusGone, "gone", false},
		"Wrong":        {"the request is wrong", http.StatusBadRequest, "bad", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			f.does(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.text)
				f.answers(http.StatusOK) // the next time
			})
			code, text, err := f.get(t.Context(), patient, "/")
			switch {
			case err != nil:
				t.Errorf("%s: %v", c.why, err)
			case c.again && code != http.StatusOK:
				t.Errorf("%s: not asked again", c.why)
			case !c.again && (code != c.code || text != c.text):
				t.Errorf("%s: got %d %q", c.why, code, text)
			}
		})
	}
}

// A credential that is accepted again is good news for those who wait because it
// was refused: they need not sit out their delays.
func TestProbeEndsWaiting(t *testing.T) {
	f := newFar(t)
	f.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20") // as long as anybody ever waits
		w.WriteHeader(http.StatusForbidden)
	})
	if code, _, err := f.get(t.Context(), probing, "/"); code != http.StatusForbidden || err != nil {
		t.Fatalf("got %d, %v", code, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := f.get(ctx, patient, "/")
		done <- err
	}()
	for f.asked.Load() < 2 { // the server does not signal that a request has arrived
		time.Sleep(time.Millisecond)
	}
	f.answers(http.StatusOK)
	start := time.Now()
	if _, _, err := f.get(t.Context(), probing, "/"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > backoffLast-2*time.Second {
		t.Errorf("waited for %s although the probe was good", took)
	}
}

// The one who gave up says nothing about the line, unless it was a probe that
// reached its limit.
func TestLineCallerGivesUp(t *testing.T) {
	for m, want := range map[connMode]bool{ordinary: false, probing: true} {
		f := newFar(t)
		f.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err := f.get(ctx, m, "/")
		cancel()
		if err == nil || (f.line.Down() != nil) != want {
			t.Errorf("manner %d: %v, down %v", m, err, f.line.Down())
		}
	}
}

// After HangUp nothing is sent any more, and no connection is left.
func TestHangUp(t *testing.T) {
	f := newFar(t)
	f.does(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	done := make(chan error, 1)
	go func() {
		_, _, err := f.get(t.Context(), patient, "/?watch=true")
		done <- err
	}()
	for f.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	f.line.Close()
	<-done
	if n := f.line.Open(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	before := f.asked.Load()
	for _, m := range []connMode{ordinary, probing, patient} {
		if _, _, err := f.get(t.Context(), m, "/"); !errors.Is(err, ErrConnClosed) {
			t.Errorf("manner %d: %v", m, err)
		}
	}
	if f.asked.Load() != before {
		t.Error("something was sent")
	}
}

// A Backoff grows to its limit and never leaves the second half of a delay.
func TestBackoff(t *testing.T) {
	b := Backoff{}
	for i, most := range []time.Duration{1, 2, 4, 8, 16, 20, 20} {
		most *= time.Second
		if d := b.Next(); d < most/2 || d > most {
			t.Errorf("delay %d: %s is not within half of %s", i+1, d, most)
		}
	}
	b.Reset()
	if d := b.Next(); d > time.Second {
		t.Errorf("after a success: %s", d)
	}
}

func TestNewLineRefuses(t *testing.T) {
	cfg := &rest.Config{Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("rubbish")}}
	if _, err := NewConn(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), "https://x") {
		t.Errorf("got %v", err)
	}
}
