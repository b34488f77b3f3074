// Package kill_test kills agents, with SIGKILL, at every request by which they
// change something, and looks at what the next process makes of it.
package kill_test

import (
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// A point is where an agent dies: at one of its writes, counted from 0 since the
// reaper was armed. Before: the API server never sees that write. After: it has
// answered, and the agent never hears of it.
type point struct {
	write int
	after bool
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("%s write %d", when, p.write)
}

// A write is a request by which an agent changes something.
type write struct {
	Method, Path string
	Name         string // of the object
	Code         int    // of the answer; 0: there was none
}

func (w write) String() string { return fmt.Sprintf("%s %s %s (%d)", w.Method, w.Path, w.Name, w.Code) }

// record tells whether a write is to one of Helm's records.
func (w write) record() bool { return strings.HasPrefix(w.Name, "sh.helm.release.v1.") }

// A reaper stands between an agent and its API servers. All requests of the agent
// go through its RoundTrip, which kills the agent where it is told to.
type reaper struct {
	*httptest.Server
	next http.RoundTripper

	mu     sync.Mutex
	victim *process.Process
	armed  *point
	doomed bool    // its point has come
	writes []write // since it was armed
}

var errDead = errors.New("the agent is dead")

// newReaper serves the API server that target leads to, to whoever has a token.
func newReaper(t testing.TB, target *rest.Config) *reaper {
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
	r := &reaper{next: next}
	r.Server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport:     r,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	})
	r.EnableHTTP2 = true
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// ca is the certificate authority of the reaper, PEM.
func (r *reaper) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
}

// watches says which process is the agent.
func (r *reaper) watches(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.victim = p
}

// arm begins to count writes anew, and kills the agent at one of them; nil: at
// none.
func (r *reaper) arm(at *point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.doomed, r.writes = at, false, nil
}

// fatal tells whether the point at which the agent dies has come.
func (r *reaper) fatal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doomed
}

// seen are the writes since the reaper was armed.
func (r *reaper) seen() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

// RoundTrip passes a request on, and the answer back.
func (r *reaper) RoundTrip(req *http.Request) (*http.Response, error) {
	if !changes(req) {
		return r.next.RoundTrip(req)
	}
	w, err := writeOf(req)
	if err != nil {
		return nil, err
	}
	n, at := r.begin(w)
	if at != nil && !at.after {
		return nil, errDead
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.end(n, resp.StatusCode, at != nil)
	if at != nil {
		_ = resp.Body.Close()
		return nil, errDead
	}
	return resp, nil
}

// changes tells whether a request asks to change something.
func changes(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return req.URL.Query().Get("dryRun") == ""
}

// writeOf reads what a request is about. Of an object that is made the name stands
// in the body.
func writeOf(req *http.Request) (write, error) {
	w := write{Method: req.Method, Path: req.URL.Path, Name: path.Base(strings.TrimSuffix(req.URL.Path, "/status"))}
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

// begin notes a write, and returns its number, and the point if it is that of the
// agent's death. An agent that is to die before it is dead then.
func (r *reaper) begin(w write) (n int, at *point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = len(r.writes)
	r.writes = append(r.writes, w)
	if r.armed == nil || r.armed.write != n {
		return n, nil
	}
	at, r.armed, r.doomed = r.armed, nil, true
	if !at.after {
		r.victim.Kill()
	}
	return n, at
}

func (r *reaper) end(n, code int, kill bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < len(r.writes) {
		r.writes[n].Code = code
	}
	if kill {
		r.victim.Kill()
	}
}
