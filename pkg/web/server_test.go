package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

func TestSize(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 10_000)
	s := webtest.Repository(t, webtest.Options{
		Files: map[string][]byte{"/file": body},
		Handlers: map[string]http.HandlerFunc{
			"/endless": webtest.Endless(),
			"/unsaid": func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).Flush()
				_, _ = w.Write(body)
			},
		},
	})
	if res, got := gets(t, small(t), web.Request{URL: s.URL + "/file", MaxBytes: 10_000}); res.Bytes != 10_000 || len(got) != 10_000 {
		t.Errorf("as large as allowed: %+v", res)
	}
	// The length is announced: nothing is read.
	if res, _ := fails(t, small(t), web.Request{URL: s.URL + "/file", MaxBytes: 9_999}, web.ReasonTooLarge, "10000 bytes"); res.Bytes != 0 {
		t.Errorf("%d bytes were written", res.Bytes)
	}
	if res, _ := fails(t, small(t), web.Request{URL: s.URL + "/unsaid", MaxBytes: 9_999}, web.ReasonTooLarge, "9999"); res.Bytes > 9_999 {
		t.Errorf("%d bytes were written", res.Bytes)
	}
	before := s.Sent()
	if res, _ := fails(t, small(t), web.Request{URL: s.URL + "/endless", MaxBytes: 64 << 20}, web.ReasonTooLarge, "1048576"); res.Bytes > 1<<20 {
		t.Errorf("%d bytes were written: a request cannot raise the client's limit", res.Bytes)
	}
	// What the kernel buffers on both sides is sent, but not what is endless.
	if sent := s.Sent() - before; sent > 32<<20 {
		t.Errorf("%d bytes were sent", sent)
	}
}

func TestSlow(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{
		"/silent": webtest.Silent(), "/slow": webtest.Slow(), "/trickle": webtest.Trickle(50 * time.Millisecond),
	}})
	t.Run("Silent", func(t *testing.T) {
		t.Parallel() // they wait
		fails(t, hurried(t, time.Minute, 300*time.Millisecond), web.Request{URL: s.URL + "/silent"}, web.ReasonUnreachable, "nothing came for 300ms")
	})
	// What is to have come must come before that, however busy the machine is.
	t.Run("Slow", func(t *testing.T) {
		t.Parallel()
		if res, _ := fails(t, hurried(t, time.Minute, 3*time.Second), web.Request{URL: s.URL + "/slow"}, web.ReasonUnreachable, "fewer than 1024 bytes came in 3s"); res.Bytes != 1 {
			t.Errorf("%d bytes", res.Bytes)
		}
	})
	t.Run("Trickle", func(t *testing.T) {
		t.Parallel()
		if res, _ := fails(t, hurried(t, 4*time.Second, time.Minute), web.Request{URL: s.URL + "/trickle"}, web.ReasonUnreachable, "not complete after 4s"); res.Bytes < 2 {
			t.Errorf("%d bytes", res.Bytes)
		}
	})
	// A byte now and then does not keep the download until its timeout.
	t.Run("Drip", func(t *testing.T) {
		t.Parallel()
		fails(t, hurried(t, 20*time.Second, 3*time.Second), web.Request{URL: s.URL + "/trickle"}, web.ReasonUnreachable, "fewer than 1024 bytes came in 3s")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := small(t).Get(ctx, web.Request{URL: s.URL + "/silent"}, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// raw is a server that hands each connection to answer after its request: a
// test decides every byte of the response, and when the connection ends.
func raw(t *testing.T, answer func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				if _, err := c.Read(make([]byte, 64<<10)); err == nil {
					answer(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/x"
}

func say(texts ...string) func(net.Conn) {
	return func(c net.Conn) {
		for _, text := range texts {
			_, _ = c.Write([]byte(text))
		}
	}
}

func TestLies(t *testing.T) {
	loris := func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
		for {
			if _, err := c.Write([]byte("X-A: b\r\n")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond) // this is the attack
		}
	}
	headers := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Large: "+strings.Repeat("x", 1000)+"\r\n", 200) + "\r\n"
	tests := map[string]struct {
		answer       func(net.Conn)
		reason, text string
		bytes        int64
	}{
		"SlowHeaders":     {loris, web.ReasonUnreachable, "nothing came", 0},
		"HugeHeaders":     {say(headers), web.ReasonUnreachable, "headers are larger", 0},
		"EndlessHeaders":  {func(c net.Conn) { say("HTTP/1.1 200 OK\r\nX: ")(c); pour(c) }, web.ReasonUnreachable, "headers are larger", 0},
		"ShorterThanSaid": {say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "short"), web.ReasonUnreachable, "closed early", 5},
		"BrokenChunk":     {say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nshort\r\nzz"), web.ReasonUnreachable, "", 5},
		"NegativeLength":  {say("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), web.ReasonUnreachable, "could not be read", 0},
		"TwoLengths":      {say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort!"), web.ReasonUnreachable, "could not be read", 0},
		"NoHTTP":          {say("SSH-2.0-OpenSSH_9.6\r\n"), web.ReasonUnreachable, "could not be read", 0},
		"Nothing":         {say(), web.ReasonUnreachable, "closed early", 0},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			client := small(t)
			if name == "SlowHeaders" {
				client = hurried(t, time.Minute, 300*time.Millisecond)
			}
			if res, _ := fails(t, client, web.Request{URL: raw(t, c.answer)}, c.reason, c.text); res.Bytes != c.bytes {
				t.Errorf("%d bytes were written", res.Bytes)
			}
		})
	}
	// More than was said is not read.
	if _, body := gets(t, small(t), web.Request{URL: raw(t, say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "short", "smuggled"))}); body != "short" {
		t.Errorf("got %q", body)
	}
}

func pour(c net.Conn) {
	for block := bytes.Repeat([]byte("x"), 64<<10); ; {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// A file may come gzipped if the client asked for that, and then its real size
// counts. Otherwise the client does not unpack what a server calls compressed.
func TestCompressed(t *testing.T) {
	bomb := zipped(make([]byte, 100<<20))
	serve := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(data)
		}
	}
	broken := zipped([]byte("entries: {}\n"))
	broken[len(broken)-5] ^= 0xFF
	s := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{
		"/index.yaml": serve(zipped([]byte("entries: {}\n"))), "/bomb": serve(bomb), "/lie": serve([]byte("this is a text and no gzip")), "/broken": serve(broken),
	}})
	if res, body := gets(t, small(t), web.Request{URL: s.URL + "/index.yaml", Compressed: true}); body != "entries: {}\n" || res.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))) {
		t.Errorf("got %q", body)
	}
	if got := s.Headers()[0].Get("Accept-Encoding"); got != "gzip" {
		t.Errorf("asked for %q", got)
	}
	if _, body := gets(t, small(t), web.Request{URL: s.URL + "/index.yaml"}); body != string(zipped([]byte("entries: {}\n"))) {
		t.Errorf("got %q", body)
	}
	if res, _ := fails(t, small(t), web.Request{URL: s.URL + "/bomb", Compressed: true}, web.ReasonTooLarge, "1048576"); res.Bytes > 1<<20 {
		t.Errorf("%d bytes were written of a bomb of %d", res.Bytes, len(bomb))
	}
	fails(t, small(t), web.Request{URL: s.URL + "/lie", Compressed: true}, web.ReasonUnreachable, "not gzip")
	fails(t, small(t), web.Request{URL: s.URL + "/broken", Compressed: true}, web.ReasonUnreachable, "damaged")
}

func TestChecksum(t *testing.T) {
	data := []byte("the file")
	s := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/file": data}})
	sums := map[string]string{
		"md5": fmt.Sprintf("%x", md5.Sum(data)), "sha1": fmt.Sprintf("%x", sha1.Sum(data)),
		"sha256": fmt.Sprintf("%x", sha256.Sum256(data)), "sha512": fmt.Sprintf("%x", sha512.Sum512(data)),
	}
	for kind, sum := range sums {
		gets(t, small(t), web.Request{URL: s.URL + "/file", Checksum: kind + ":" + sum})
		gets(t, small(t), web.Request{URL: s.URL + "/file", Checksum: strings.ToUpper(kind + ":" + sum)})
		fails(t, small(t), web.Request{URL: s.URL + "/index.yaml", Checksum: kind + ":" + sum}, web.ReasonChecksumMismatch, "not "+sum)
	}
	before := s.Requests("")
	for _, bad := range []string{"sha256:abc", "sha256:" + strings.Repeat("z", 64), "crc32:00000000", sums["sha256"], "sha256"} {
		fails(t, small(t), web.Request{URL: s.URL + "/file", Checksum: bad}, web.ReasonInvalidURL, "checksum")
	}
	if s.Requests("") != before {
		t.Error("a request was made for a checksum that no file can have")
	}
}

func TestProxy(t *testing.T) {
	plain := webtest.Repository(t, webtest.Options{Username: user, Password: password})
	secure := webtest.Repository(t, webtest.Options{TLS: true, Username: user, Password: password})
	through := func(p *webtest.Proxy) *web.Client {
		c := web.New(web.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(p.URL), Timeout: time.Minute})
		t.Cleanup(c.Close)
		return c
	}
	p := webtest.StartProxy(t, 0)
	gets(t, through(p), web.Request{URL: plain.URL + "/index.yaml", Credentials: secret})
	gets(t, through(p), web.Request{URL: secure.URL + "/index.yaml", Credentials: withSecret(secure, secret)})
	want := []string{"GET " + plain.URL + "/index.yaml", "CONNECT " + secure.Host}
	if got := p.Targets(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
	fails(t, through(p), web.Request{URL: "http://169.254.169.254/latest/meta-data/"}, web.ReasonAddressRefused, "metadata")
	fails(t, through(p), web.Request{URL: "http://[fe80::1]/"}, web.ReasonAddressRefused, "link-local")
	if got := p.Targets(); len(got) != 2 {
		t.Errorf("the proxy was asked for %q", got)
	}
	at := web.Request{URL: secure.URL + "/index.yaml", Credentials: withSecret(secure, secret)}
	const closed = "asks for credentials (407), or refuses those in its URL; the URL of the proxy holds them"
	for name, c := range map[string]struct {
		refuse       int
		url          string
		reason, text string
	}{
		"Closed":      {407, at.URL, web.ReasonAuthenticationRefused, closed},
		"ClosedPlain": {407, plain.URL, web.ReasonAuthenticationRefused, closed},
		"Forbidden":   {403, at.URL, web.ReasonUnreachable, "does not connect to it (403 Forbidden)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := webtest.StartProxy(t, c.refuse)
			p.URL.User = url.UserPassword("ana", password)
			fails(t, through(p), web.Request{URL: c.url, Credentials: at.Credentials}, c.reason, fmt.Sprintf("proxy %q %s", p.URL.Host, c.text))
		})
	}
	gone := webtest.StartProxy(t, 0)
	gone.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:1", User: url.UserPassword("ana", password)}
	fails(t, through(gone), at, web.ReasonUnreachable, `proxy "127.0.0.1:1" cannot be reached: connection refused`)
}

// A repository with credentials is read through proxies with credentials, and an
// error names a proxy that refuses its own.
func TestProxyCredentials(t *testing.T) {
	secure := webtest.Repository(t, webtest.Options{TLS: true, Username: user, Password: password})
	at := web.Request{URL: secure.URL + "/index.yaml", Credentials: withSecret(secure, secret)}
	through := func(proxy *url.URL) *web.Client {
		c := web.New(web.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(proxy), Timeout: time.Minute})
		t.Cleanup(c.Close)
		return c
	}
	connect, socks := webtest.StartProxyWithLogin(t, "ana", "right"), webtest.StartSOCKS(t, "ana", "right")
	gets(t, through(connect.URL), at)
	if got := connect.Targets(); fmt.Sprint(got) != fmt.Sprint([]string{"CONNECT " + secure.Host}) {
		t.Errorf("the proxy was asked for %q", got)
	}
	gets(t, through(socks.URL), at)
	if socks.Connects.Load() != 1 {
		t.Errorf("the SOCKS proxy made %d connections", socks.Connects.Load())
	}
	wrong := func(right *url.URL) *url.URL {
		return &url.URL{Scheme: right.Scheme, Host: right.Host, User: url.UserPassword("ana", password)}
	}
	fails(t, through(wrong(connect.URL)), at, web.ReasonAuthenticationRefused, fmt.Sprintf("proxy %q asks for credentials (407)", connect.URL.Host))
	fails(t, through(wrong(socks.URL)), at, web.ReasonUnreachable,
		fmt.Sprintf("SOCKS proxy %q does not connect: username/password authentication failed", socks.URL.Host))
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"", "ftp://h/x", "file:///etc/passwd", "http://", "https:///x", "no url", "http://h\x00/", "git::https://h/x"} {
		fails(t, small(t), web.Request{URL: url}, web.ReasonInvalidURL, "URL")
	}
	for _, url := range []string{"http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://0.0.0.0/", "http://[ff02::1]/", "http://[fe80::1%25eth0]/"} {
		fails(t, small(t), web.Request{URL: url}, web.ReasonAddressRefused, "not dialled")
	}
	fails(t, hurried(t, 2*time.Second, time.Second), web.Request{URL: "http://does-not-exist.invalid/"}, web.ReasonUnreachable, "") // where names are not answered too
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A full disk is not the server's fault, and may be better later.
func TestFullDisk(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{})
	_, err := small(t).Get(t.Context(), web.Request{URL: s.URL + "/index.yaml"}, full{})
	if !errors.Is(err, errFull) || reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		t.Errorf("got %v", err)
	}
}

// Connections are used again until the client is closed.
func TestConnectionsAreKept(t *testing.T) {
	var opened int
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
	ts.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened++
		}
	}
	ts.Start()
	defer ts.Close()
	c := small(t)
	for range 5 {
		gets(t, c, web.Request{URL: ts.URL})
	}
	if opened != 1 {
		t.Errorf("%d connections for 5 files", opened)
	}
}
