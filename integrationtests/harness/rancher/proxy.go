package rancher

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
)

// proxied is where the proxy serves clusters.
const proxied = "/k8s/clusters/"

// A proxy leads to the API servers of clusters, for those who have a token of
// Rancher's, while Rancher runs.
type proxy struct {
	rancher   *Rancher
	server    *httptest.Server
	authority *pki.Authority // of the server's certificate
	mu        sync.Mutex
	targets   map[string]http.Handler // by management Cluster
}

func newProxy(t testing.TB, r *Rancher, address string) *proxy {
	t.Helper()
	p := &proxy{rancher: r, targets: map[string]http.Handler{}}
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

// ServeHTTP hands a request on with the credentials that lead to its cluster.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, proxied), "/")
	p.mu.Lock()
	target := p.targets[id]
	p.mu.Unlock()
	switch {
	case !p.rancher.Running():
		http.Error(w, "Rancher does not run", http.StatusBadGateway)
	case !p.rancher.knows(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")):
		http.Error(w, "who are you", http.StatusUnauthorized)
	case target == nil || !strings.HasPrefix(r.URL.Path, proxied):
		http.Error(w, "no tunnel to cluster "+id, http.StatusServiceUnavailable)
	default:
		r.URL.Path, r.URL.RawPath = "/"+rest, ""
		r.Header.Del("Authorization")
		target.ServeHTTP(w, r)
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
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.targets[cluster] = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(target) },
	}
}
