package rancher

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
)

// proxied is where the proxy serves clusters.
const proxied = "/k8s/clusters/"

// atRoot are the paths of the local API server that Rancher serves beside its own.
var atRoot = []string{"/api", "/apis", "/openapi", "/version"}

// A proxy leads to API servers while Rancher runs: clients with a token of Rancher's to
// those of clusters, and at its root to the local one. There it passes on a token that
// Rancher does not know, for the API server to judge: so agents reach the manager at
// Rancher's server-url, each with the token of its own account (rancher-differences.md,
// D; docs/reference-behaviour.md).
type proxy struct {
	rancher   *Rancher
	server    *httptest.Server
	authority *pki.Authority // of the server's certificate
	root      http.Handler   // the local API server, with the credentials of the request
	mu        sync.Mutex
	targets   map[string]http.Handler // by management Cluster, with Rancher's credentials
}

func newProxy(t testing.TB, r *Rancher, address string) *proxy {
	t.Helper()
	p := &proxy{rancher: r, root: forward(t, rest.AnonymousClientConfig(r.Hub.Cluster.REST())), targets: map[string]http.Handler{}}
	var err error
	p.authority, err = pki.NewAuthority("rancher")
	check(t, err)
	pair, err := p.authority.Server([]string{"rancher"}, []net.IP{net.ParseIP(address)})
	check(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	check(t, err)
	p.server = httptest.NewUnstartedServer(p)
	check(t, p.server.Listener.Close())
	p.server.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	check(t, err)
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections() // those who watch
		p.server.Close()
	})
	return p
}

func (p *proxy) url() string { return p.server.URL }

func (p *proxy) ca() string { return string(p.authority.Cert) }

// ServeHTTP hands a request on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.rancher.Running() {
		http.Error(w, "Rancher does not run", http.StatusBadGateway)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := token != "" && p.rancher.knows(token)
	if path, ok := strings.CutPrefix(r.URL.Path, proxied); ok {
		id, rest, _ := strings.Cut(path, "/")
		p.cluster(w, r, known, id, rest)
		return
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if known || token == "" || !slices.Contains(atRoot, "/"+first) {
		http.Error(w, "this Rancher serves others than agents only at "+proxied, http.StatusServiceUnavailable)
		return
	}
	p.root.ServeHTTP(w, r)
}

// cluster hands a request on to a cluster, with the credentials that lead to it. The
// token of the request has to be known.
func (p *proxy) cluster(w http.ResponseWriter, r *http.Request, known bool, id, rest string) {
	p.mu.Lock()
	target := p.targets[id]
	p.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "who are you", http.StatusUnauthorized)
	case target == nil:
		http.Error(w, "no tunnel to cluster "+id, http.StatusServiceUnavailable)
	default:
		r.URL.Path, r.URL.RawPath = "/"+rest, ""
		r.Header.Del("Authorization")
		target.ServeHTTP(w, r)
	}
}

// forward hands requests on to an API server, with the credentials of config besides
// those of the request.
func forward(t testing.TB, config *rest.Config) http.Handler {
	t.Helper()
	transport, err := rest.TransportFor(config)
	check(t, err)
	target, err := url.Parse(config.Host)
	check(t, err)
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(target) },
	}
}

// URL is where Rancher serves, and CA the certificate of that.
func (r *Rancher) URL() string { return r.proxy.url() }

// CA is the certificate authority of URL, as PEM.
func (r *Rancher) CA() string { return r.proxy.ca() }

// Attach lets the proxy lead to the API server of a management Cluster. That of
// "local" is attached from the beginning.
func (r *Rancher) Attach(t testing.TB, cluster string, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = Agent
	target := forward(t, config)
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.targets[cluster] = target
}
