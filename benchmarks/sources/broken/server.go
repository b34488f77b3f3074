package broken

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
)

// A kind is how a server behaves while it is broken.
type kind string

const (
	healthy   kind = "healthy"
	refused   kind = "refuses connections"
	silent    kind = "never answers"
	drip      kind = "sends a byte a second"
	erring    kind = "answers 500"
	garbage   kind = "sends random bytes"
	unknownCA kind = "has a certificate of an unknown CA"
	endless   kind = "sends an answer without end"
	missing   kind = "answers 404"
)

// brokenKinds are all but healthy.
func brokenKinds() []kind {
	return []kind{refused, silent, drip, erring, garbage, unknownCA, endless, missing}
}

// What servers count.
const (
	asksHeads   = "lists of references"
	asksCommits = "fetches"
	asksIndex   = "indexes"
	asksArchive = "charts"
	asksTags    = "lists of tags"
	asksOther   = "other requests of registries"
)

// A server is a git server, a Helm repository and a registry at one address.
type server struct {
	kind    kind
	catalog *catalog
	broken  atomic.Bool
	port    int
	held    io.Closer // the port, also while it refuses connections
	http    *http.Server
	quit    chan struct{} // closed with the server: answers that do not end, end

	mu      sync.Mutex
	repos   map[string]*repository
	counted map[string]int
}

// openServer opens a server that behaves like its kind once it is broken.
func openServer(k kind, broken bool) (*server, error) {
	s := &server{kind: k, catalog: newCatalog(), quit: make(chan struct{}), repos: map[string]*repository{}, counted: map[string]int{}}
	var held *os.File
	var err error
	if s.port, held, err = port.Hold(port.Loopback, 0); err != nil {
		return nil, err
	}
	s.held = held
	if k == refused && broken {
		s.broken.Store(true)
		return s, nil
	}
	l, err := port.Listen(port.Loopback, s.port)
	if err != nil {
		return nil, fmt.Errorf("serve sources: %w", err)
	}
	if k == unknownCA {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate()}})
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.http.Serve(l) }() // ends with close
	s.broken.Store(broken)
	return s, nil
}

// certificate is one that no client trusts.
func certificate() tls.Certificate {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates[0]
}

// fail breaks a server that was healthy.
func (s *server) fail() {
	s.broken.Store(true)
	if s.kind == refused {
		_ = s.http.Close()
	}
}

func (s *server) close() {
	close(s.quit)
	if s.http != nil {
		_ = s.http.Close()
	}
	_ = s.held.Close()
}

// host is the address of the server.
func (s *server) host() string { return net.JoinHostPort(port.Loopback, fmt.Sprint(s.port)) }

// url is the URL of a path.
func (s *server) url(path string) string {
	if s.kind == unknownCA {
		return "https://" + s.host() + path
	}
	return "http://" + s.host() + path
}

// repository returns the git repository of a name, and makes it first if it is missing.
func (s *server) repository(name string) *repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repos[name] == nil {
		s.repos[name] = &repository{}
	}
	return s.repos[name]
}

// counts is what was asked for so far.
func (s *server) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for what, n := range s.counted {
		all[what] = n
	}
	return all
}

// classify says what a request asks for.
func classify(r *http.Request) string {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/info/refs"):
		return asksHeads
	case strings.HasSuffix(path, "/git-upload-pack"):
		return asksCommits
	case strings.HasSuffix(path, "/index.yaml"):
		return asksIndex
	case strings.HasSuffix(path, ".tgz"):
		return asksArchive
	case strings.HasSuffix(path, "/tags/list"):
		return asksTags
	}
	return asksOther
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := classify(r)
	s.mu.Lock()
	s.counted[what]++
	s.mu.Unlock()
	if s.broken.Load() {
		s.misbehave(w, r, what)
		return
	}
	switch what {
	case asksHeads, asksCommits:
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
		s.mu.Lock()
		repo := s.repos[name]
		s.mu.Unlock()
		switch {
		case repo == nil:
			http.NotFound(w, r)
		case what == asksHeads:
			repo.advertise(w)
		default:
			repo.upload(w, r)
		}
	case asksIndex:
		s.catalog.serveIndex(w, r)
	case asksArchive:
		s.catalog.serveArchive(w, r, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
	default:
		s.catalog.serveRegistry(w, r)
	}
}

// misbehave answers as the kind of the server does.
func (s *server) misbehave(w http.ResponseWriter, r *http.Request, what string) {
	switch s.kind {
	case silent:
		s.wait(r, time.Hour)
	case drip:
		s.start(w, what)
		for err := error(nil); err == nil && s.wait(r, time.Second); {
			_, err = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
		}
	case erring:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case garbage:
		s.start(w, what)
		block := make([]byte, 4<<10)
		for i := range block {
			block[i] = byte(rand.N(256))
		}
		_, _ = w.Write(block)
	case endless:
		s.endless(w, r, what)
	default:
		http.NotFound(w, r)
	}
}

// wait reports whether client and server are still there after a time.
func (s *server) wait(r *http.Request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
	case <-s.quit:
	}
	return false
}

// start sends the headers of a good answer.
func (s *server) start(w http.ResponseWriter, what string) {
	types := map[string]string{asksHeads: "application/x-git-upload-pack-advertisement", asksTags: "application/json", asksIndex: "text/yaml"}
	w.Header().Set("Content-Type", types[what])
	w.WriteHeader(http.StatusOK)
}

// endless sends a well-formed beginning as fast as it is read, until the client has gone.
func (s *server) endless(w http.ResponseWriter, r *http.Request, what string) {
	s.start(w, what)
	begin, next := "", func(i int) string { return fmt.Sprintf("# line %d\n", i) }
	switch what {
	case asksHeads:
		begin = "001e# service=git-upload-pack\n0000"
		next = func(i int) string {
			text := fmt.Sprintf("%040d refs/heads/b%09d\n", 1, i)
			if i == 0 {
				text = fmt.Sprintf("%040d HEAD\x00%s\n", 1, capabilities)
			}
			return fmt.Sprintf("%04x%s", len(text)+4, text)
		}
	case asksIndex:
		begin = "apiVersion: v1\nentries:\n  app:\n"
		next = func(i int) string { return fmt.Sprintf("  - {name: app, version: 1.0.%d, urls: [a.tgz]}\n", i) }
	case asksTags:
		begin = `{"name":"app","tags":["first"`
		next = func(i int) string { return fmt.Sprintf(`,"1.0.%d"`, i) }
	}
	_, err := io.WriteString(w, begin)
	for i := 0; err == nil && r.Context().Err() == nil; i++ {
		_, err = io.WriteString(w, next(i))
	}
}
