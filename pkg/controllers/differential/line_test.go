package differential_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A line is what lies between the manager and the API server: it counts
// requests, and answers some of them itself.
type line struct {
	// deletable says why the manager must not delete a BundleDeployment now;
	// empty: it may.
	deletable func(namespace, name string) string

	mu       sync.Mutex
	rng      *rand.Rand
	weather  weather
	faults   int // that may still come before the weather clears up
	requests int
	writes   int
	open     int // requests that were not answered yet
	last     []string
	wrong    []string
	doors    map[string]chan struct{} // closed ones, by resource
	expired  map[string]bool          // watches that have to start again with a list, by resource
	streams  map[*stream]bool
}

// A weather says what becomes of a request, in percent.
type weather struct {
	Busy    int // 429 without a time to wait: the manager has to cope with it
	Later   int // 429 with Retry-After: 0, which client-go copes with
	Failing int // 500, nothing was done
	Broken  int // the connection breaks before the request arrives
	Deaf    int // the request was carried out, and the answer is lost
}

// heavy is a weather with twice as many faults.
func (w weather) heavy() weather {
	return weather{2 * w.Busy, 2 * w.Later, 2 * w.Failing, 2 * w.Broken, 2 * w.Deaf}
}

func newLine(deletable func(namespace, name string) string) *line {
	return &line{deletable: deletable, rng: rand.New(rand.NewPCG(1, 1)), doors: map[string]chan struct{}{},
		expired: map[string]bool{}, streams: map[*stream]bool{}}
}

func (l *line) wrap(base http.RoundTripper) http.RoundTripper { return &wire{line: l, base: base} }

// A wire is a line as one of the manager's clients has it.
type wire struct {
	line *line
	base http.RoundTripper
}

// What becomes of one request.
type fate int

const (
	goes fate = iota
	busy
	later
	fails
	breaks
	deaf
)

// RoundTrip sends a request, or answers it.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") == "true" || req.URL.Query().Get("watch") == "1" {
		return w.watch(req)
	}
	fate := w.line.begin(req)
	defer w.line.end()
	switch fate {
	case goes:
		return w.carryOut(req)
	case deaf:
		resp, err := w.carryOut(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return nil, reset()
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	switch fate {
	case busy:
		return refusal(req, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, false), nil
	case later:
		return refusal(req, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, true), nil
	case fails:
		return refusal(req, http.StatusInternalServerError, metav1.StatusReasonInternalError, false), nil
	}
	return nil, reset()
}

// carryOut sends a request. A deletion that the API server refuses, since the manager decided
// on an older version, deletes nothing.
func (w *wire) carryOut(req *http.Request) (*http.Response, error) {
	why := ""
	if req.Method == http.MethodDelete && path.Base(path.Dir(req.URL.Path)) == "bundledeployments" {
		why = w.line.deletable(path.Base(path.Dir(path.Dir(req.URL.Path))), path.Base(req.URL.Path))
	}
	resp, err := w.base.RoundTrip(req)
	if why != "" && err == nil && resp.StatusCode < http.StatusBadRequest {
		w.line.accuse(fmt.Sprintf("%s %s, but %s", req.Method, req.URL.Path, why))
	}
	return resp, err
}

func reset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// refusal is an answer as the API server gives it.
func refusal(req *http.Request, code int, reason metav1.StatusReason, again bool) *http.Response {
	body, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "the test says so"})
	if err != nil {
		panic(err)
	}
	resp := &http.Response{Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req}
	if again {
		resp.Header.Set("Retry-After", "0")
	}
	return resp
}

// begin counts a request and decides what becomes of it.
func (l *line) begin(req *http.Request) fate {
	what := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/apis/fleet.cattle.io/v1alpha1")
	event := strings.HasSuffix(req.URL.Path, "/events")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	l.requests++
	if req.Method != http.MethodGet && !event {
		l.writes++
		l.last = append(l.last, what)
		l.last = l.last[max(0, len(l.last)-30):]
	}
	return l.draw()
}

func (l *line) draw() fate {
	if l.faults <= 0 {
		return goes
	}
	n := l.rng.IntN(100)
	for i, chance := range []int{l.weather.Busy, l.weather.Later, l.weather.Failing, l.weather.Broken, l.weather.Deaf} {
		if n < chance {
			l.faults--
			return fate(i + 1)
		}
		n -= chance
	}
	return goes
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// accuse notes that the manager has done what it must never do.
func (l *line) accuse(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, what)
}

// A tally is what the manager has sent so far.
type tally struct{ requests, writes, open int }

func (l *line) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally{l.requests, l.writes, l.open}
}

// lastWrites are the last n writes of the manager.
func (l *line) lastWrites(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last[max(0, len(l.last)-n):], "\n")
}

// accusations lists the manager's mistakes so far.
func (l *line) accusations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.wrong...)
}

// storm lets the next faults come, at most so many.
func (l *line) storm(w weather, faults int, seed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weather, l.faults, l.rng = w, faults, rand.New(rand.NewPCG(seed, 2))
}

// shut holds the events of a kind back from now on.
func (l *line) shut(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doors[resource] == nil {
		l.doors[resource] = make(chan struct{})
	}
}

// lose drops what was held back of a kind: the watch ends, and what it was at
// is too old to go on from.
func (l *line) lose(resource string) {
	l.mu.Lock()
	l.expired[resource] = true
	l.mu.Unlock()
	l.cut(resource)
	l.unshut(resource)
}

// cut ends the watches of a kind; they go on where they were.
func (l *line) cut(resource string) {
	l.mu.Lock()
	var cut []*stream
	for s := range l.streams {
		if s.resource == resource {
			cut = append(cut, s)
		}
	}
	l.mu.Unlock()
	for _, s := range cut {
		s.cut()
	}
}

// unshut delivers what was held back.
func (l *line) unshut(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if door := l.doors[resource]; door != nil {
		close(door)
		delete(l.doors, resource)
	}
}

// clear ends all faults.
func (l *line) clear() {
	l.storm(weather{}, 0, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	for resource, door := range l.doors {
		close(door)
		delete(l.doors, resource)
	}
}

// hangUp forgets what was on its way to a manager that has ended.
func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.expired)
	for resource, door := range l.doors {
		close(door)
		delete(l.doors, resource)
	}
}

func (l *line) door(resource string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doors[resource]
}

// watch opens a watch, unless what it wants to go on from is lost.
func (w *wire) watch(req *http.Request) (*http.Response, error) {
	resource, q := path.Base(req.URL.Path), req.URL.Query()
	if v := q.Get("resourceVersion"); v != "" && v != "0" && q.Get("sendInitialEvents") == "" && w.line.takeExpired(resource) {
		return refusal(req, http.StatusGone, metav1.StatusReasonExpired, false), nil
	}
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	s := &stream{ReadCloser: resp.Body, line: w.line, resource: resource, closed: make(chan struct{})}
	w.line.mu.Lock()
	w.line.streams[s] = true
	w.line.mu.Unlock()
	resp.Body = s
	return resp, nil
}

func (l *line) takeExpired(resource string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	yes := l.expired[resource]
	delete(l.expired, resource)
	return yes
}

// A stream is an open watch.
type stream struct {
	io.ReadCloser
	line     *line
	resource string
	once     sync.Once
	closed   chan struct{}
}

// Read delivers events, where nothing holds them back.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if door := s.line.door(s.resource); door != nil {
		select {
		case <-door:
		case <-s.closed:
		}
	}
	select {
	case <-s.closed:
		return 0, io.EOF
	default:
		return n, err
	}
}

func (s *stream) cut() { _ = s.Close() }

// Close ends the watch.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.line.mu.Lock()
		delete(s.line.streams, s)
		s.line.mu.Unlock()
	})
	return s.ReadCloser.Close()
}
