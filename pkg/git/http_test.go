package git

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestCredentialsOverHTTP(t *testing.T) {
	_, server, commits := world(t)
	host := strings.TrimPrefix(server.URL, "http://")
	url := server.URL + "/repo"
	cases := map[string]struct {
		why          string
		user, pass   string // what the server wants
		url          string
		credentials  Credentials
		reason, text string
	}{
		"Basic":      {user: "ana", pass: "canary-1", credentials: Credentials{Username: "ana", Password: "canary-1"}},
		"TokenAlone": {why: "a password alone is the user name", user: "canary-2", credentials: Credentials{Password: "canary-2"}},
		"InURL":      {user: "ana", pass: "canary-3", url: strings.Replace(url, "//", "//ana:canary-3@", 1)},
		"SecretWins": {user: "ana", pass: "canary-4", url: strings.Replace(url, "//", "//eve:x@", 1), credentials: Credentials{Username: "ana", Password: "canary-4"}},
		"None": {
			user: "ana", pass: "canary-5", reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("git host %q asks for credentials (401); none are set (clientSecretName)", host),
		},
		"Wrong": {
			user: "ana", pass: "right", credentials: Credentials{Username: "ana", Password: "canary-6"}, reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("git host %q refuses the credentials (401)", host),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server.Intercept(gittest.BasicAuth(c.user, c.pass))
			src := Source{URL: c.url, Credentials: c.credentials}
			if src.URL == "" {
				src.URL = url
			}
			remotes := newRemotes(t, Limits{})
			got, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"})
			if c.reason != "" {
				wantFault(t, err, c.reason, c.text)
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("a credential stands in the error: %v", err)
				}
				return
			}
			if err != nil || got != commits["main"] {
				t.Fatal(got, err)
			}
			fetch(t, remotes, src, Reference{Branch: "main"}, got)
		})
	}
}

func TestRedirects(t *testing.T) {
	_, server, commits := world(t)
	seen := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		http.Redirect(w, r, server.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer other.Close()
	t.Run("WithinTheHost", func(t *testing.T) {
		server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/renamed/") {
				return gittest.BasicAuth("ana", "pw")(w, r)
			}
			http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), "/renamed/", "/repo/", 1), http.StatusMovedPermanently)
			return true
		})
		src := Source{URL: server.URL + "/renamed", Credentials: Credentials{Username: "ana", Password: "pw"}}
		remotes := newRemotes(t, Limits{})
		got, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"})
		if err != nil || got != commits["main"] {
			t.Fatal(got, err)
		}
		fetch(t, remotes, src, Reference{Branch: "main"}, got)
	})
	t.Run("ElsewhereWithoutCredentials", func(t *testing.T) {
		server.Intercept(nil)
		got, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: other.URL + "/repo"}, Reference{Branch: "main"})
		if err != nil || got != commits["main"] {
			t.Fatal(got, err)
		}
		<-seen
	})
	t.Run("ElsewhereWithCredentials", func(t *testing.T) {
		stolen := make(chan string, 10)
		server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			stolen <- r.Header.Get("Authorization")
			return false
		})
		src := Source{URL: other.URL + "/repo", Credentials: Credentials{Username: "ana", Password: "canary"}}
		_, err := newRemotes(t, Limits{}).Resolve(t.Context(), src, Reference{Branch: "main"})
		wantFault(t, err, ReasonRedirected, "")
		if len(stolen) != 0 {
			t.Errorf("the other host was asked, with %q", <-stolen)
		}
	})
	t.Run("LoginPage", func(t *testing.T) {
		server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login", http.StatusFound)
			return true
		})
		_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
		wantFault(t, err, ReasonRedirected, "")
	})
}

func TestHTTPFaults(t *testing.T) {
	_, server, _ := world(t)
	host := strings.TrimPrefix(server.URL, "http://")
	cases := map[string]struct {
		handle       func(http.ResponseWriter, *http.Request) bool
		reason, text string
	}{
		"Maintenance": {func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusServiceUnavailable)
			return true
		}, ReasonRemoteFailing, fmt.Sprintf("git host %q cannot serve \"repo\": it answers 503 Service Unavailable", host)},
		"WebPage": {func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		}, ReasonNotGit, ""},
		"Garbage": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("zzzz"))
			return true
		}, ReasonRemoteFailing, fmt.Sprintf("git host %q cannot serve \"repo\": the answer could not be read", host)},
		"HangUp": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
			ReasonRemoteFailing, fmt.Sprintf("git host %q cannot serve \"repo\": the connection was closed early", host)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server.Intercept(c.handle)
			_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
			wantFault(t, err, c.reason, c.text)
		})
	}
	t.Run("Silence", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		server.Intercept(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
		remotes, err := New(Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = remotes.Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
		wantFault(t, err, ReasonRemoteFailing, fmt.Sprintf("git host %q cannot serve \"repo\": no answer in time", host))
	})
}

func TestTLS(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := Commit(repo.Commit("first", map[string]string{"a": "1"}))
	server := gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	url, ref := server.URL+"/repo", Reference{Branch: "main"}
	remotes := newRemotes(t, Limits{})
	_, err := remotes.Resolve(t.Context(), Source{URL: url}, ref)
	wantFault(t, err, ReasonCertificateRefused, "")
	_, err = remotes.Resolve(t.Context(), Source{URL: strings.Replace(url, "127.0.0.1", "localhost", 1), CABundle: server.PEM()}, ref)
	wantFault(t, err, ReasonCertificateRefused, "")
	if u := (&reconcile.Untrusted{}); !errors.As(err, &u) || u.Advice == "" {
		t.Errorf("want advice about the name, got %v", err)
	}
	for name, src := range map[string]Source{
		"CABundle": {URL: url, CABundle: server.PEM()},
		"Insecure": {URL: url, InsecureSkipTLSVerify: true},
	} {
		got, err := remotes.Resolve(t.Context(), src, ref)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	_, err = remotes.Resolve(t.Context(), Source{URL: url, CABundle: []byte("no PEM")}, ref)
	wantFault(t, err, ReasonInvalidCredentials, "caBundle holds no PEM certificate: want the text from BEGIN CERTIFICATE to END CERTIFICATE with both lines, in base64 once")
}
