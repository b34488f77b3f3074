// Package gitserver serves a folder of bare repositories as git over HTTP on
// loopback: clone, fetch and push, with a password where one is asked for. It
// needs the git command and nothing else of git's.
package gitserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
)

// Config says what to serve, and where.
type Config struct {
	Dir     string    // holds the bare repositories, NAME.git each; made if it is missing
	Address string    // to listen on; 127.0.0.1 where empty
	Port    int       // any free one where 0
	Log     io.Writer // for what git complains about; nowhere where nil
}

// A Server serves until Close.
type Server struct {
	cfg  Config
	port int
	held io.Closer // the port, also while it is closed

	mu        sync.Mutex
	http      *http.Server // nil while it is closed
	passwords map[string]login
}

type login struct{ user, password string }

// Start serves cfg.Dir.
func Start(cfg Config) (*Server, error) {
	if err := initFolder(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1"
	}
	s := &Server{cfg: cfg, passwords: map[string]login{}}
	var err error
	if s.port, s.held, err = port.Hold(cfg.Address, cfg.Port); err != nil {
		return nil, fmt.Errorf("serve git: %w", err)
	}
	return s, s.Open()
}

// Open serves again after Close, on the same port.
func (s *Server) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	l, err := port.Listen(s.cfg.Address, s.port)
	if err != nil {
		return fmt.Errorf("serve git: %w", err)
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func(h *http.Server) { _ = h.Serve(l) }(s.http) // ends with Close
	return nil
}

// Close stops listening and cuts what is being served. The repositories stay, and no
// other process gets the port as long as the Server is used.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		_ = s.http.Close() // nothing to do about a listener that will not close
		s.http = nil
	}
}

// Port is the port that it listens on.
func (s *Server) Port() int { return s.port }

// URL is the address of the repository called name, without ".git".
func (s *Server) URL(name string) string {
	return fmt.Sprintf("http://%s:%d/%s.git", s.cfg.Address, s.port, name)
}

// Path is the folder of the bare repository called name.
func (s *Server) Path(name string) string { return filepath.Join(s.cfg.Dir, name+".git") }

// Protect asks for user and password (HTTP basic authentication) whenever the
// repository called name is read or written. An empty user lifts that.
func (s *Server) Protect(name, user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user == "" {
		delete(s.passwords, name)
		return
	}
	s.passwords[name] = login{user, password}
}

func (s *Server) allowed(name string, r *http.Request) bool {
	s.mu.Lock()
	want, protected := s.passwords[name]
	s.mu.Unlock()
	if !protected {
		return true
	}
	user, password, _ := r.BasicAuth()
	return subtle.ConstantTimeCompare([]byte(user), []byte(want.user)) == 1 &&
		subtle.ConstantTimeCompare([]byte(password), []byte(want.password)) == 1
}

// ServeHTTP implements the smart HTTP protocol of git: a list of references,
// upload-pack (what fetch talks to) and receive-pack (what push talks to).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, action, ok := split(r.URL.Path)
	if !ok || !exists(s.Path(name)) {
		http.NotFound(w, r)
		return
	}
	if !s.allowed(name, r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "authentication required", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	service := r.URL.Query().Get("service")
	switch {
	case r.Method == http.MethodGet && action == "info/refs" && services[service]:
		s.advertise(w, r, name, service)
	case r.Method == http.MethodPost && services[action]:
		s.exchange(w, r, name, action)
	default:
		http.NotFound(w, r)
	}
}

var services = map[string]bool{"git-upload-pack": true, "git-receive-pack": true}

// split takes "/NAME.git/ACTION" apart. NAME may have folders, but leads
// nowhere else.
func split(path string) (name, action string, ok bool) {
	name, action, ok = strings.Cut(strings.TrimPrefix(path, "/"), ".git/")
	return name, action, ok && name != "" && filepath.IsLocal(name)
}

// advertise answers with the repository's references.
func (s *Server) advertise(w http.ResponseWriter, r *http.Request, name, service string) {
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	protocol := r.Header.Get("Git-Protocol")
	var head bytes.Buffer
	if !strings.Contains(protocol, "version=2") {
		line := "# service=" + service + "\n"
		fmt.Fprintf(&head, "%04x%s0000", len(line)+4, line)
	}
	_, _ = w.Write(head.Bytes()) // a client that went away needs no answer
	cmd := s.git(r.Context(), protocol, strings.TrimPrefix(service, "git-"), "--stateless-rpc", "--advertise-refs", s.Path(name))
	s.run(cmd, nil, w)
}

// exchange passes one request to git and its answer back.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, name, service string) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "body is not gzip", http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	cmd := s.git(r.Context(), r.Header.Get("Git-Protocol"), strings.TrimPrefix(service, "git-"), "--stateless-rpc", s.Path(name))
	s.run(cmd, body, w)
}

func (s *Server) run(cmd *exec.Cmd, in io.Reader, out io.Writer) {
	var complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &complaint
	if err := cmd.Run(); err != nil && s.cfg.Log != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(s.cfg.Log, "git %s: %v: %s\n", strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
}

// waitDelay is how long what git has said may take to be passed on after its end. On
// a busy machine a second is not enough, and the rest would be lost.
const waitDelay = 30 * time.Second

// git makes a command that reads no configuration but the repository's.
func (s *Server) git(ctx context.Context, protocol string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = environment(s.cfg.Dir)
	if protocol != "" {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+protocol)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = waitDelay
	return cmd
}
