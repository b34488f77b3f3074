package webtest

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// A Proxy is a forward proxy on loopback: CONNECT for https, and requests with
// a whole URL for http.
type Proxy struct {
	URL *url.URL

	mu      sync.Mutex
	targets []string
	refuse  int
	login   *url.Userinfo
}

// StartProxy starts a proxy. It ends with the test. It answers every request
// with the status refuse, if that is not 0.
func StartProxy(t testing.TB, refuse int) *Proxy {
	t.Helper()
	p := &Proxy{refuse: refuse}
	ts := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	p.URL, _ = url.Parse(ts.URL)
	return p
}

// StartProxyWithLogin starts a proxy that wants a user name and password, which
// its URL holds. It answers every other request with 407.
func StartProxyWithLogin(t testing.TB, user, password string) *Proxy {
	t.Helper()
	p := StartProxy(t, 0)
	p.login = url.UserPassword(user, password)
	p.URL.User = p.login
	return p
}

// authorized reports whether the request holds the user name and password that p wants.
func (p *Proxy) authorized(r *http.Request) bool {
	password, _ := p.login.Password()
	login := base64.StdEncoding.EncodeToString([]byte(p.login.Username() + ":" + password))
	return p.login == nil || r.Header.Get("Proxy-Authorization") == "Basic "+login
}

// Targets returns what the proxy was asked for: "CONNECT host:port" or "GET URL".
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.authorized(r) {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	p.mu.Lock()
	p.targets = append(p.targets, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	if p.refuse != 0 {
		w.WriteHeader(p.refuse)
		return
	}
	if r.Method == http.MethodConnect {
		tunnel(w, r)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, "unreachable", http.StatusBadGateway)
		return
	}
	defer func() { _ = res.Body.Close() }()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

func tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, "unreachable", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	both := func(dst io.WriteCloser, src io.Reader) {
		_, _ = io.Copy(dst, src)
		_ = to.Close()
		_ = from.Close()
	}
	go both(to, buffered)
	both(from, to)
}
