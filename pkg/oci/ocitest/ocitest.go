// Package ocitest runs a real OCI registry on loopback for tests. Only tests
// import it: it links the whole registry.
package ocitest

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // the registry's access control
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // the registry's storage
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"

	"github.com/fleetworkspace/fleet/pkg/oci"
)

// An Account may do everything.
type Account struct{ Username, Password string }

// Options say what kind of registry it is. The zero Options is open to every client,
// without TLS.
type Options struct {
	Accounts []Account // who may use it; no other account may
	// Token makes it ask for bearer tokens, which its own /token gives for user
	// name and password. Else it asks for them with every request.
	Token bool
	TLS   bool // with a certificate of an unknown CA
	// NoDelete makes it refuse deletions.
	NoDelete bool
}

// A Request is one that the registry has seen.
type Request struct {
	Method, Path  string
	Authorization string // the header; empty is none
}

// A Server is a running registry.
type Server struct {
	Host string // host:port
	opts Options
	http *httptest.Server
	app  http.Handler

	mu       sync.Mutex
	requests []Request
	first    func(http.ResponseWriter, *http.Request) bool
}

const token = "a-token-of-the-test-registry"

// Start runs a registry until the test ends. It silences the standard logger of
// the test's process, which the registry writes to.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{opts: o}
	logrus.StandardLogger().SetLevel(logrus.PanicLevel) // each request, else
	s.app = handlers.NewApp(context.WithoutCancel(t.Context()), s.configuration(t))
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	if o.TLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	t.Cleanup(s.http.Close)
	s.Host = s.http.Listener.Addr().String()
	return s
}

func (s *Server) configuration(t testing.TB) *configuration.Configuration {
	t.Helper()
	cfg := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory":    configuration.Parameters{},
		"delete":      configuration.Parameters{"enabled": !s.opts.NoDelete},
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}}
	cfg.HTTP.Secret = "only for tests"
	cfg.Catalog.MaxEntries = 1000
	cfg.Validation.Disabled = true
	if len(s.opts.Accounts) == 0 || s.opts.Token {
		return cfg
	}
	var lines strings.Builder
	for _, a := range s.opts.Accounts {
		hash, err := bcrypt.GenerateFromPassword([]byte(a.Password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s:%s\n", a.Username, hash)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": "registry", "path": file}}
	return cfg
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.Header.Get("Authorization")})
	first := s.first
	s.mu.Unlock()
	switch {
	case first != nil && first(w, r):
	case s.opts.Token && r.URL.Path == "/token":
		s.token(w, r)
	case s.opts.Token && r.Header.Get("Authorization") != "Bearer "+token:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"test\"", s.http.URL+"/token"))
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
	default:
		s.app.ServeHTTP(w, r)
	}
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if len(s.opts.Accounts) > 0 && !slices.Contains(s.opts.Accounts, Account{user, password}) {
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, `{"token":%q}`, token)
}

// Intercept lets f see every request from now on, and answer it or not. A nil
// f ends that.
func (s *Server) Intercept(f func(w http.ResponseWriter, r *http.Request) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = f
}

// Break makes every request fail with status until Intercept(nil).
func (s *Server) Break(status int) {
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "broken on purpose", status)
		return true
	})
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests there were with this method to a path that contains
// part.
func (s *Server) Count(method, part string) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method == method && strings.Contains(r.Path, part) {
			n++
		}
	}
	return n
}

// CA returns the registry's certificate in the form of a CA bundle; nil without TLS.
func (s *Server) CA() []byte {
	if !s.opts.TLS {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Registry returns the place at path, with the rights of the first account.
func (s *Server) Registry(path string) oci.Registry {
	r := oci.Registry{Reference: s.Host + "/" + path, BasicHTTP: !s.opts.TLS, CABundle: s.CA()}
	if len(s.opts.Accounts) > 0 {
		r.Username, r.Password = s.opts.Accounts[0].Username, s.opts.Accounts[0].Password
	}
	return r
}

// Get sends a request to the registry itself, without counters and injected faults;
// path begins with "/v2/".
func (s *Server) Get(t testing.TB, path string, accept ...string) *httptest.ResponseRecorder {
	t.Helper()
	return s.Do(t, http.MethodGet, path, nil, accept...)
}

// Do is Get for any method, with a body.
func (s *Server) Do(t testing.TB, method, path string, body []byte, accept ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(string(body)))
	for _, a := range accept {
		r.Header.Add("Accept", a)
		r.Header.Set("Content-Type", a)
	}
	if len(s.opts.Accounts) > 0 {
		a := s.opts.Accounts[0]
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password)))
	}
	w := httptest.NewRecorder()
	s.app.ServeHTTP(w, r)
	return w
}
