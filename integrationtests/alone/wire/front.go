package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
)

// A Mood is how a Front answers.
type Mood int

// Moods.
const (
	Fine      Mood = iota
	Hanging        // it takes requests, and never answers
	Failing        // 500
	Busy           // 429
	Expired        // the server behind it is shown another credential: 401
	Elsewhere      // 502, as from a proxy whose server is gone
)

// A Front stands before an API server and speaks TLS with a certificate of its
// own.
type Front struct {
	server *http.Server
	url    string
	back   *httputil.ReverseProxy

	mu      sync.Mutex
	mood    Mood
	cert    tls.Certificate
	ca      []byte
	done    context.CancelFunc
	current context.Context // ends with the mood
	conns   map[net.Conn]bool
}

// NewFront starts a front of the API server of a configuration.
func NewFront(target *rest.Config) (*Front, error) {
	to, err := url.Parse(target.Host)
	if err != nil {
		return nil, fmt.Errorf("front: %w", err)
	}
	bare := rest.AnonymousClientConfig(target)
	bare.QPS = -1
	transport, err := rest.TransportFor(bare)
	if err != nil {
		return nil, fmt.Errorf("front: %w", err)
	}
	f := &Front{conns: map[net.Conn]bool{}}
	f.current, f.done = context.WithCancel(context.Background())
	f.back = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if err := f.Rotate(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("front: %w", err)
	}
	f.url = "https://" + l.Addr().String()
	f.server = &http.Server{ //nolint:gosec // a test on loopback
		Handler: f, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.certificate},
		ConnState: f.track,
	}
	go func() { _ = f.server.ServeTLS(l, "", "") }()
	return f, nil
}

// URL is the front's address.
func (f *Front) URL() string { return f.url }

// CA is the authority of the front's present certificate, PEM.
func (f *Front) CA() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ca
}

// Rotate gives the front a certificate of a new authority.
func (f *Front) Rotate() error {
	authority, err := pki.NewAuthority("front")
	if err != nil {
		return err
	}
	pair, err := authority.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("front: %w", err)
	}
	f.Certify(cert, authority.Cert)
	return nil
}

// Certificate is the front's present certificate, for Certify.
func (f *Front) Certificate() tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cert
}

// Certify gives the front a certificate. Connections end.
func (f *Front) Certify(cert tls.Certificate, ca []byte) {
	f.mu.Lock()
	f.cert, f.ca = cert, ca
	for conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.hangUp()
}

// track knows the connections.
func (f *Front) track(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch state {
	case http.StateNew:
		f.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(f.conns, conn)
	case http.StateActive, http.StateIdle:
	}
}

// Set brings the front into a mood. What it was doing ends.
func (f *Front) Set(m Mood) {
	f.mu.Lock()
	f.mood = m
	f.mu.Unlock()
	f.hangUp()
}

// hangUp ends all requests.
func (f *Front) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done()
	f.current, f.done = context.WithCancel(context.Background())
}

// Close ends the front.
func (f *Front) Close() { _ = f.server.Close() }

func (f *Front) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &f.cert, nil
}

// ServeHTTP answers in the mood that the front is in.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	mood, current := f.mood, f.current
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(current, cancel)()
	r = r.WithContext(ctx)
	switch mood {
	case Hanging:
		_, _ = io.Copy(io.Discard, r.Body)
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	case Failing:
		http.Error(w, "the database is gone", http.StatusInternalServerError)
		return
	case Elsewhere:
		http.Error(w, "<html>Bad Gateway</html>", http.StatusBadGateway)
		return
	case Busy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	case Expired:
		r.Header.Set("Authorization", "Bearer nobody")
	case Fine:
	}
	f.back.ServeHTTP(w, r)
}
