package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// A Point is where an agent dies: at one of its writes, counted from 0 since the
// Reaper was armed. Before: the API server never sees that write. After: it has
// answered, and the agent never hears of it.
type Point struct {
	Write int
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("%s write %d", when, p.Write)
}

// A Write is a request by which an agent changes something.
type Write struct {
	Method, Path string
	Name         string // of the object
	Code         int    // of the answer; 0: there was none
}

func (w Write) String() string { return fmt.Sprintf("%s %s %s (%d)", w.Method, w.Path, w.Name, w.Code) }

// Record reports whether a Write is to one of Helm's records.
func (w Write) Record() bool { return strings.HasPrefix(w.Name, "sh.helm.release.v1.") }

// A CrashProxy stands between an agent and its API servers. All requests of the agent
// go through its RoundTrip, which kills the agent at the Point that Arm sets.
type CrashProxy struct {
	*httptest.Server
	Ignore func(Write) bool // writes that do not count; nil: all count
	next   http.RoundTripper

	mu           sync.Mutex
	agentProcess *process.Process
	armed        *Point
	doomed       bool     // its point has come
	flying       int      // writes that the API server has not answered
	writes       []*Write // since it was armed
}

var errDead = errors.New("the agent is dead")

// newCrashProxy serves the API server that target leads to, for clients with a
// token.
func newCrashProxy(t testing.TB, target *rest.Config) *CrashProxy {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(target)
	next, err := rest.TransportFor(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &CrashProxy{next: next}
	r.Server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport:     r,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway) // the agent's log says it
		},
	})
	r.EnableHTTP2 = true
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// ca is the certificate authority of the crash proxy, PEM.
func (r *CrashProxy) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
}

// watches says which process is the agent.
func (r *CrashProxy) watches(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agentProcess = p
}

// Arm starts to count writes from zero, and kills the agent at one of them;
// nil: at none.
func (r *CrashProxy) Arm(at *Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.doomed, r.writes = at, false, nil
}

// Next is Arm, unless the agent is about to die at the point before; it reports
// whether it has armed.
func (r *CrashProxy) Next(at *Point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.doomed {
		r.armed, r.writes = at, nil
	}
	return !r.doomed
}

// Fatal reports whether the point at which the agent dies has come.
func (r *CrashProxy) Fatal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doomed
}

// Quiet reports whether the API server has answered all writes that it was sent.
func (r *CrashProxy) Quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flying == 0
}

// Seen are the writes since the Reaper was armed.
func (r *CrashProxy) Seen() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Write, 0, len(r.writes))
	for _, w := range r.writes {
		out = append(out, *w)
	}
	return out
}

// RoundTrip passes a request on, and the answer back. A write that was passed on ends
// with the answer of the API server, also where its agent is dead by then: who waits
// until the Reaper is Quiet sees all that the agent has done.
func (r *CrashProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if !changes(req) {
		return r.next.RoundTrip(req)
	}
	w, err := writeOf(req)
	if err != nil {
		return nil, err
	}
	if r.Ignore != nil && r.Ignore(w) {
		return r.next.RoundTrip(req)
	}
	if err := req.Context().Err(); err != nil {
		return nil, err // it is from an agent that is dead already
	}
	at, err := r.begin(&w)
	if err != nil {
		return nil, err
	}
	resp, err := r.next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	code := 0
	if err == nil {
		code = resp.StatusCode
	}
	r.end(&w, code, at != nil)
	if err != nil {
		return nil, err
	}
	if at != nil {
		_ = resp.Body.Close()
		return nil, errDead
	}
	return resp, nil
}

// changes reports whether a request asks to change something.
func changes(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return req.URL.Query().Get("dryRun") == ""
}

// writeOf reads what a request is about. Of an object that is made the name stands
// in the body.
func writeOf(req *http.Request) (Write, error) {
	w := Write{Method: req.Method, Path: req.URL.Path, Name: path.Base(strings.TrimSuffix(req.URL.Path, "/status"))}
	if req.Method != http.MethodPost {
		return w, nil
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return w, err
	}
	req.Body = io.NopCloser(bytes.NewReader(data))
	var obj struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(data, &obj) == nil {
		w.Name = obj.Metadata.Name
	}
	return w, nil
}

// begin notes a write, and returns the point if it is that of the agent's death. An
// agent that is to die before it is dead then. A write that comes after the point has
// come is not passed on.
func (r *CrashProxy) begin(w *Write) (at *Point, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doomed {
		return nil, errDead
	}
	n := len(r.writes)
	r.writes = append(r.writes, w)
	if r.armed == nil || r.armed.Write != n {
		r.flying++
		return nil, nil
	}
	at, r.armed, r.doomed = r.armed, nil, true
	if !at.After {
		r.agentProcess.Kill()
		return nil, errDead
	}
	r.flying++
	return at, nil
}

// end notes the answer to a write.
func (r *CrashProxy) end(w *Write, code int, kill bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Code = code
	r.flying--
	if kill {
		r.agentProcess.Kill()
	}
}
