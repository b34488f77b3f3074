package sources

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
)

// A kind is how a remote behaves.
type kind string

const (
	good    kind = "good"
	refused kind = "refuses connections"
	denied  kind = "answers 401"
	failing kind = "answers 500"
	silent  kind = "never answers"
	endless kind = "lists references without end"
)

// brokenKinds are all but good.
func brokenKinds() []kind { return []kind{refused, denied, failing, silent, endless} }

// asked is how often a remote was asked, and what for.
type asked struct {
	lists   int // of its references: what a poll is, and how a fetch begins
	fetches int // of commits
}

func (a asked) minus(b asked) asked { return asked{a.lists - b.lists, a.fetches - b.fetches} }
func (a asked) plus(b asked) asked  { return asked{a.lists + b.lists, a.fetches + b.fetches} }

// A host serves remotes under one address and counts what they are asked.
// Pushes are not counted.
type host struct {
	git      *gitserver.Server // keeps the repositories; asked in the process
	server   *http.Server
	listener net.Listener
	quit     chan struct{} // closed with the host: answers that do not end, end

	mu      sync.Mutex
	kinds   map[string]kind
	counted map[string]asked
}

// openHost serves the repositories of git on a port of its own.
func openHost(git *gitserver.Server) (*host, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve git: %w", err)
	}
	h := &host{git: git, listener: l, quit: make(chan struct{}), kinds: map[string]kind{}, counted: map[string]asked{}}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.server.Serve(l) }() // ends with close
	return h, nil
}

func (h *host) close() {
	close(h.quit)
	_ = h.server.Close() // nothing to do about a listener that will not close
}

// add makes a remote that behaves so and returns its URL.
func (h *host) add(name string, k kind) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kinds[name] = k
	return fmt.Sprintf("http://%s/%s.git", h.listener.Addr(), name)
}

// counts is what each remote was asked so far.
func (h *host) counts() map[string]asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counted)
}

// count notes a request and reports how the remote behaves.
func (h *host) count(r *http.Request) kind {
	name, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counted[name]
	switch {
	case action == "info/refs" && r.URL.Query().Get("service") == "git-upload-pack":
		c.lists++
	case action == "git-upload-pack":
		c.fetches++
	}
	h.counted[name] = c
	return h.kinds[name]
}

// ServeHTTP implements http.Handler.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch h.count(r) {
	case good:
		h.git.ServeHTTP(w, r)
	case denied:
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case failing:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case silent:
		h.wait(r)
	case endless:
		h.babble(w, r)
	default:
		http.NotFound(w, r)
	}
}

// wait returns when the client has gone.
func (h *host) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-h.quit:
	}
}

// babble lists references as fast as they are read, until the client has gone.
func (h *host) babble(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	line := func(text string) error {
		_, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
		return err
	}
	err := line("# service=git-upload-pack\n")
	if err == nil {
		_, err = w.Write([]byte("0000"))
	}
	hash := strings.Repeat("1", 40)
	for i := 0; err == nil && r.Context().Err() == nil; i++ {
		capabilities := ""
		if i == 0 {
			capabilities = "\x00ofs-delta symref=HEAD:refs/heads/main"
		}
		err = line(fmt.Sprintf("%s refs/heads/b%09d%s\n", hash, i, capabilities))
	}
}

// A closedPort is an address at which connections are refused.
type closedPort struct {
	fd   int
	port int
}

// closePort takes a port on loopback at which no process listens, and keeps it,
// so that no other process can.
func closePort() (*closedPort, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take a port: %w", err)
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	name, err2 := syscall.Getsockname(fd)
	if err := errors.Join(err, err2); err != nil {
		return nil, errors.Join(fmt.Errorf("take a port: %w", err), syscall.Close(fd))
	}
	address, _ := name.(*syscall.SockaddrInet4) // as it was bound
	return &closedPort{fd, address.Port}, nil
}

func (p *closedPort) url(name string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s.git", p.port, path.Clean(name))
}

func (p *closedPort) close() { _ = syscall.Close(p.fd) }
