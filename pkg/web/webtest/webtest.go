// Package webtest is a Helm repository over HTTP or HTTPS on loopback, for tests: real
// charts, a real index, and a record of the requests and credentials that it got.
package webtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Chart is what the repository has.
type Chart struct {
	Name, Version string
	// Files besides Chart.yaml, which is made; with "Chart.yaml" among them, that
	// one is taken. Nil: one ConfigMap in templates.
	Files map[string]string
	// Digest replaces the right one in the index.
	Digest string
	// URL replaces that of the archive in the index.
	URL string
}

// Options say what kind of server it is. The zero Options are a public
// repository without TLS.
type Options struct {
	Charts   []Chart
	Path     string // where the repository is, such as "/charts"; empty: at the root
	Absolute bool   // URLs in the index are absolute

	Username, Password string // if set, everything asks for them
	TLS                bool   // with an authority of its own, see Server.CA

	// Index, if set, is sent as index.yaml instead of the right one.
	Index []byte
	// Files are further files of the server, by path from its root.
	Files map[string][]byte
	// Handlers answer for paths, before anything else and without asking for
	// credentials: Redirect, Endless, Slow, Status or one of your own.
	Handlers map[string]http.HandlerFunc
}

// A Server is a running repository.
type Server struct {
	URL  string // of the repository: what helm.repo would be
	Host string // host:port
	CA   []byte // PEM of the authority that signed its certificate; nil without TLS

	options  Options
	files    map[string][]byte
	mu       sync.Mutex
	requests map[string]int
	reported []string
	headers  []http.Header
	sent     int64
}

// Repository starts a server. It ends with the test.
func Repository(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{options: o, requests: map[string]int{}}
	ts := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	scheme := "http"
	if o.TLS {
		scheme = "https"
		authority, certificate := Authority(t)
		s.CA = authority
		ts.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Host = ts.Listener.Addr().String()
	s.URL = scheme + "://" + s.Host + o.Path
	s.files = o.build(s.URL)
	if o.TLS {
		ts.EnableHTTP2 = true
		ts.StartTLS()
	} else {
		ts.Start()
	}
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return s
}

// build packs the charts and writes the index.
func (o Options) build(url string) map[string][]byte {
	files := map[string][]byte{}
	entries := map[string][]string{}
	for _, c := range o.Charts {
		data := c.Pack()
		at := path.Join("archives", c.Name+"-"+c.Version+".tgz")
		files[path.Join("/", o.Path, at)] = data
		if o.Absolute {
			at = url + "/" + at
		}
		if c.URL != "" {
			at = c.URL
		}
		digest := c.Digest
		if digest == "" {
			sum := sha256.Sum256(data)
			digest = hex.EncodeToString(sum[:])
		}
		entries[c.Name] = append(entries[c.Name], fmt.Sprintf("  - apiVersion: v2\n    created: \"2024-01-02T03:04:05Z\"\n    digest: %s\n    name: %s\n    urls:\n    - %s\n    version: %q\n", digest, c.Name, at, c.Version))
	}
	index := "apiVersion: v1\nentries:\n"
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		index += "  " + name + ":\n" + strings.Join(entries[name], "")
	}
	if len(entries) == 0 {
		index = "apiVersion: v1\nentries: {}\n"
	}
	index += "generated: \"2024-01-02T03:04:05Z\"\n"
	files[path.Join("/", o.Path, "index.yaml")] = []byte(index)
	if o.Index != nil {
		files[path.Join("/", o.Path, "index.yaml")] = o.Index
	}
	maps.Copy(files, o.Files)
	return files
}

// Pack returns the chart as a .tgz.
func (c Chart) Pack() []byte {
	all := map[string]string{"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", c.Name, c.Version)}
	if c.Files == nil {
		all["templates/configmap.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"
	}
	maps.Copy(all, c.Files)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed) // some tests pack 50 MiB
	if err != nil {
		panic(err)
	}
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: c.Name + "/" + name, Mode: 0o644, Size: int64(len(all[name])), ModTime: time.Unix(0, 0)}); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(all[name])); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.URL.Path]++
	if auth := r.Header.Get("Authorization"); auth != "" {
		s.reported = append(s.reported, auth)
	}
	s.headers = append(s.headers, r.Header.Clone())
	data, found := s.files[r.URL.Path]
	s.mu.Unlock()
	counting := &counter{ResponseWriter: w, server: s}
	if h := s.options.Handlers[r.URL.Path]; h != nil {
		h(counting, r)
		return
	}
	if s.options.Username != "" || s.options.Password != "" {
		user, password, _ := r.BasicAuth()
		if user != s.options.Username || password != s.options.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(counting, "unauthorized", http.StatusUnauthorized)
			return
		}
	}
	if !found {
		http.NotFound(counting, r)
		return
	}
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = counting.Write(data)
}

// counter counts the bytes of bodies that went out.
type counter struct {
	http.ResponseWriter
	server *Server
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.server.mu.Lock()
	c.server.sent += int64(n)
	c.server.mu.Unlock()
	return n, err
}

func (c *counter) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

// Unwrap lets http.ResponseController through.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Requests returns how often a path was asked for; of "" all of them together.
func (s *Server) Requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path != "" {
		return s.requests[path]
	}
	all := 0
	for _, n := range s.requests {
		all += n
	}
	return all
}

// Authorizations returns the Authorization headers that the server has seen.
func (s *Server) Authorizations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reported)
}

// Headers returns the headers of all requests.
func (s *Server) Headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

// Sent returns the bytes of all bodies.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Put changes or adds a file, by its path from the server's root; nil takes it
// away.
func (s *Server) Put(path string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data == nil {
		delete(s.files, path)
		return
	}
	s.files[path] = data
}

// File returns what the server has under a path.
func (s *Server) File(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.files[path])
}

// Redirect answers with the way to another URL.
func Redirect(status int, to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}
}

// Status answers with a status and headers "Name: value".
func Status(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html>status</html>"))
	}
}

// Endless sends zeros until the client goes away.
func Endless() http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// Slow sends headers and one byte, and then nothing until the client goes away.
func Slow() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// Trickle sends a byte per interval until the client goes away.
func Trickle(every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	}
}

// Silent returns a handler that takes the request and answers nothing.
func Silent() http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// Authority makes a certificate authority, as PEM, and a certificate of it for
// 127.0.0.1, ::1 and localhost.
func Authority(t testing.TB) (ca []byte, server tls.Certificate) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return k
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webtest authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "webtest"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootKey, leafKey := key(), key()
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	must(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}
}
