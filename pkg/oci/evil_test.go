package oci_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A host records the requests and the credentials that it receives, and counts
// the bytes that it receives and sends.
type host struct {
	*httptest.Server
	sent atomic.Int64

	mu       sync.Mutex
	requests []string // "METHOD path"
	reported []string // Authorization headers
	received int64    // bytes of bodies
}

func serve(t *testing.T, start func(*httptest.Server), answer http.HandlerFunc) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		h.requests = append(h.requests, r.Method+" "+r.URL.Path)
		h.received += n
		if a := r.Header.Get("Authorization"); a != "" {
			h.reported = append(h.reported, a)
		}
		h.mu.Unlock()
		answer(counted{w, h}, r)
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(h.Server)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

// counted counts the bytes of bodies.
type counted struct {
	http.ResponseWriter
	h *host
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.h.sent.Add(int64(n))
	return n, err
}

func (h *host) seen() (requests, reported []string, received int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests, h.reported, h.received
}

func (h *host) registry(path string) oci.Registry {
	u, _ := url.Parse(h.URL)
	return oci.Registry{Reference: u.Host + "/" + path, Username: "fleet", Password: secret, BasicHTTP: u.Scheme == "http", InsecureSkipVerify: u.Scheme == "https"}
}

func basicFirst(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); p != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		then(w, r)
	}
}

// What a registry points to never learns the credentials, whatever it is
// pointed to with.
func TestCredentialsStayAtHome(t *testing.T) {
	chart := []byte("a chart")
	id, raw := bundle("evil")
	bearer := func(realm string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="s",scope="x"`, realm))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	redirect := func(status int) func(other string) http.HandlerFunc {
		return func(other string) http.HandlerFunc {
			return basicFirst(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other+r.URL.Path, status)
			})
		}
	}
	tests := map[string]struct {
		evil   func(other string) http.HandlerFunc
		tls    bool // of the evil one
		push   bool
		reason string
		asked  bool // whether the other host may be asked at all, without credentials
		why    string
	}{
		"Realm": {evil: func(o string) http.HandlerFunc { return bearer(o + "/token") }, reason: oci.ReasonRedirected, why: "CVE-2026-48978"},
		"RealmByName": {evil: func(o string) http.HandlerFunc {
			return bearer(strings.Replace(o, "127.0.0.1", "localhost", 1) + "/token")
		}, reason: oci.ReasonRedirected, why: "another name"},
		"RealmTLS":      {evil: func(o string) http.HandlerFunc { return bearer(strings.Replace(o, "http:", "https:", 1)) }, reason: oci.ReasonRedirected, why: "TLS makes no friend"},
		"RealmNoTLS":    {evil: func(o string) http.HandlerFunc { return bearer(o + "/token") }, tls: true, reason: oci.ReasonRedirected, why: "a downgrade"},
		"RealmFile":     {evil: func(string) http.HandlerFunc { return bearer("file:///etc/passwd") }, reason: oci.ReasonNotRegistry, why: "no URL of a service"},
		"RealmUserInfo": {evil: func(o string) http.HandlerFunc { return bearer(strings.Replace(o, "://", "://127.0.0.1@", 1)) }, reason: oci.ReasonRedirected, why: "the host is what counts"},
		"RealmNotQuoted": {evil: func(o string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `bearer service="x", realm = `+o+`/token`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		}, reason: oci.ReasonRedirected, why: "however it is written"},
		"RealmTwice": {evil: func(o string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",realm="%s/token"`, r.Host, o))
				w.WriteHeader(http.StatusUnauthorized)
			}
		}, reason: oci.ReasonRedirected, why: "the check and the use read the same header differently"},
		"TokenRedirects": {evil: func(o string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					http.Redirect(w, r, o+"/token", http.StatusTemporaryRedirect)
					return
				}
				bearer("http://"+r.Host+"/token")(w, r)
			}
		}, reason: oci.ReasonUnreachable, asked: true, why: "the token service sends us on"},
		"Redirect302":   {evil: redirect(302), reason: oci.ReasonUnreachable, asked: true, why: "GHSA-vh4v-2xq2-g5cg"},
		"Redirect307":   {evil: redirect(307), reason: oci.ReasonUnreachable, asked: true, why: "GHSA-vh4v-2xq2-g5cg"},
		"RedirectNoTLS": {evil: redirect(307), tls: true, reason: oci.ReasonRedirected, why: "a downgrade"},
		"RedirectPush": {evil: func(o string) http.HandlerFunc {
			return basicFirst(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					http.Redirect(w, r, o+r.URL.Path, http.StatusTemporaryRedirect)
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
		}, push: true, reason: oci.ReasonRedirected, why: "what is written is not sent on"},
		"Location": {evil: func(o string) http.HandlerFunc {
			return basicFirst(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Location", o+"/upload")
				w.WriteHeader(http.StatusAccepted)
			})
		}, push: true, reason: oci.ReasonDamaged, why: "GHSA-jxpm-75mh-9fp7"},
		"LocationNoTLS": {evil: func(string) http.HandlerFunc {
			return basicFirst(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Location", "http://"+r.Host+"/upload")
				w.WriteHeader(http.StatusAccepted)
			})
		}, tls: true, push: true, reason: oci.ReasonDamaged, why: "a downgrade"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			other := serve(t, (*httptest.Server).Start, basicFirst(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(chart) }))
			start := (*httptest.Server).Start
			if c.tls {
				start = (*httptest.Server).StartTLS
			}
			evil := serve(t, start, c.evil(other.URL))
			client := oci.New(oci.Config{Addresses: address.WithLoopback(), Timeout: 5 * time.Second})
			var err error
			if c.push {
				err = client.Push(t.Context(), evil.registry("x"), id, raw)
			} else {
				_, _, err = pulled(t, client, evil.registry("x"), "1.0.0", 0)
			}
			if err == nil || reconcile.ReasonOf(err) != c.reason {
				t.Errorf("%s: %s %v", c.why, reconcile.ReasonOf(err), err)
			}
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("the password is in %v", err)
			}
			requests, reported, received := other.seen()
			if len(reported) > 0 || received > 0 {
				t.Errorf("%s: the other host got the credentials %q and got %d bytes", c.why, reported, received)
			}
			if len(requests) > 0 && !c.asked {
				t.Errorf("%s: the other host was asked %q", c.why, requests)
			}
		})
	}
}

// The next page of tags is not asked for elsewhere.
func TestPageElsewhere(t *testing.T) {
	other := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"tags":["9.9.9"]}`)) })
	evil := serve(t, (*httptest.Server).Start, basicFirst(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+other.URL+"/v2/x/tags/list>; rel=\"next\"")
		_, _ = w.Write([]byte(`{"tags":["1.0.0"]}`))
	}))
	tags, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Tags(t.Context(), evil.registry("x"))
	if reconcile.ReasonOf(err) != oci.ReasonRedirected {
		t.Errorf("%q, %v", tags, err)
	}
	if requests, _, _ := other.seen(); len(requests) > 0 {
		t.Errorf("the other host was asked %q", requests)
	}
}

// A store of blobs elsewhere is read from, as public registries have it, without
// credentials; and a token service elsewhere is asked by those who have none.
func TestElsewhereWithoutCredentials(t *testing.T) {
	chart := []byte("a chart")
	store := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			_, _ = w.Write([]byte(`{"token":"t0k3n"}`))
			return
		}
		_, _ = w.Write(chart)
	})
	registry := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+store.URL+`/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, store.URL+"/blob", http.StatusTemporaryRedirect)
		default:
			answerManifest(w, chartManifest(layerOf(chart)))
		}
	})
	r := registry.registry("x")
	r.Username, r.Password = "", ""
	got, _, err := pulled(t, oci.New(oci.Config{Addresses: address.WithLoopback()}), r, "1.0.0", 0)
	if err != nil || string(got) != string(chart) {
		t.Errorf("%q, %v", got, err)
	}
	if _, reported, _ := store.seen(); len(reported) > 0 {
		t.Errorf("the store got the credentials %q", reported)
	}
}

// Who gives up gets the error of the context, not a fault of the registry.
func TestGivenUp(t *testing.T) {
	started := make(chan struct{})
	silent := serve(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) { close(started); <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Tags(ctx, silent.registry("x")); err != context.Canceled { //nolint:errorlint // itself, nothing around it
		t.Errorf("got %v", err)
	}
}
