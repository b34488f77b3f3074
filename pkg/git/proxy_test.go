package git

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http/httpproxy"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

const (
	proxyUser     = "ana"
	proxyPassword = "canary-proxy"
)

// startConnectProxy starts an HTTP proxy that counts the connections it makes.
// It wants proxyUser if closed, and refuses with the status refuse if that is
// not 0.
func startConnectProxy(t *testing.T, closed bool, refuse int) (host string, connects *atomic.Int32) {
	t.Helper()
	connects = new(atomic.Int32)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case closed && r.Header.Get("Proxy-Authorization") != want:
			w.WriteHeader(http.StatusProxyAuthRequired)
		case refuse != 0:
			w.WriteHeader(refuse)
		case r.Method != http.MethodConnect:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			to, err := net.Dial("tcp", loopback(r.Host))
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			connects.Add(1)
			w.WriteHeader(http.StatusOK)
			from, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				_ = to.Close()
				return
			}
			join(from, buffered, to)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String(), connects
}

// join copies between two connections until one ends.
func join(from net.Conn, read io.Reader, to net.Conn) {
	both := func(dst io.Writer, src io.Reader) {
		_, _ = io.Copy(dst, src)
		_ = from.Close()
		_ = to.Close()
	}
	go both(to, read)
	both(from, to)
}

// A repository is read over HTTPS through HTTP and SOCKS5 proxies, and an error
// names the proxy that fails, without its password.
func TestProxy(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := Commit(repo.Commit("one", map[string]string{"a.yaml": "a"}))
	server := gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	// httpproxy uses no proxy for loopback, but it does for this name.
	target := "https://git.test:" + port + "/" + filepath.Base(repo.Dir)
	open, openConnects := startConnectProxy(t, false, 0)
	closed, closedConnects := startConnectProxy(t, true, 0)
	forbidding, _ := startConnectProxy(t, false, http.StatusForbidden)
	socksProxy := webtest.StartSOCKS(t, proxyUser, proxyPassword)
	socks := socksProxy.URL.Host
	dead := httptest.NewServer(nil)
	gone := dead.Listener.Addr().String()
	dead.Close()
	login := proxyUser + ":" + proxyPassword + "@"
	host := "git.test:" + port

	cases := map[string]struct {
		proxy        string
		connects     *atomic.Int32
		reason, text string
	}{
		"HTTP":             {proxy: "http://" + open, connects: openConnects},
		"HTTPCredentials":  {proxy: "http://" + login + closed, connects: closedConnects},
		"SOCKSCredentials": {proxy: "socks5://" + login + socks, connects: &socksProxy.Connects},
		"HTTPWithout": {
			proxy: "http://" + closed, reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("proxy %q asks for credentials (407), or refuses those in its URL; the URL of the proxy holds them", closed),
		},
		"HTTPWrong": {
			proxy: "http://eve:canary-proxy-2@" + closed, reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("proxy %q asks for credentials (407), or refuses those in its URL; the URL of the proxy holds them", closed),
		},
		"Forbidden": {
			proxy: "http://" + login + forbidding, reason: ReasonUnreachable,
			text: fmt.Sprintf("git host %q cannot be reached: proxy %q: it does not connect (403 Forbidden)", host, forbidding),
		},
		"Dead": {
			proxy: "http://" + login + gone, reason: ReasonUnreachable,
			text: fmt.Sprintf("git host %q cannot be reached: proxy %q cannot be reached: connection refused", host, gone),
		},
		"SOCKSDead": {
			proxy: "socks5://" + login + gone, reason: ReasonUnreachable,
			text: fmt.Sprintf("git host %q cannot be reached: proxy %q cannot be reached: connection refused", host, gone),
		},
		"SOCKSWrong": {
			proxy: "socks5://eve:canary-proxy-2@" + socks, reason: ReasonUnreachable,
			text: fmt.Sprintf("git host %q cannot be reached: SOCKS proxy %q does not connect: %q", host, socks, "username/password authentication failed"),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := Source{URL: target, InsecureSkipTLSVerify: true}
			remotes := remotesWithEnvironment(t, httpproxy.Config{HTTPSProxy: c.proxy})
			got, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"})
			if c.reason != "" {
				wantFault(t, err, c.reason, c.text)
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("a credential stands in the error: %v", err)
				}
				return
			}
			if err != nil || got != want {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
			if c.connects.Load() == 0 {
				t.Error("the repository was read past the proxy")
			}
		})
	}
}

// NO_PROXY names hosts that are connected to directly.
func TestNoProxy(t *testing.T) {
	proxy, connects := startConnectProxy(t, false, http.StatusForbidden)
	remotes := remotesWithEnvironment(t, httpproxy.Config{HTTPSProxy: "http://" + proxy, NoProxy: "git.test"})
	_, err := remotes.Resolve(t.Context(), Source{URL: "https://git.test:1/r"}, Reference{Branch: "main"})
	if err == nil || strings.Contains(err.Error(), "proxy") || connects.Load() != 0 {
		t.Errorf("want an error of the host itself, got %v", err)
	}
}

// remotesWithEnvironment returns Remotes with the proxy that this environment
// names.
func remotesWithEnvironment(t *testing.T, env httpproxy.Config) *Remotes {
	t.Helper()
	choose := env.ProxyFunc()
	remotes, err := New(Config{
		Addresses: address.WithLoopback(), Dir: t.TempDir(),
		Proxy: func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remotes.Close(); err != nil {
			t.Error(err)
		}
	})
	return remotes
}

// loopback is where a proxy of these tests finds a host: git.test is known to
// it alone.
func loopback(hostPort string) string {
	return strings.Replace(hostPort, "git.test:", "127.0.0.1:", 1)
}
