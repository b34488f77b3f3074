// Package web gets files over HTTP and HTTPS: within bounds of time and size,
// and with credentials that never reach another server than the one they are
// meant for. It keeps connections between requests and nothing else.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// Config says how files are got. The zero Config works.
type Config struct {
	UserAgent string
	// Proxy reports which proxy a request goes through; nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses says which reserved addresses are dialled; none by default.
	Addresses address.Policy
	// Timeout is for one whole download; 0 means 5 minutes.
	Timeout time.Duration
	Limits  Limits
}

// Limits bound what a server can make us do. Zero fields mean the defaults.
type Limits struct {
	Bytes     int64         // of one file; 2 GiB
	Stall     time.Duration // until the headers are there, and then for each KiB of the body; 30 s
	Headers   int64         // bytes of the headers of one answer; 64 KiB
	Redirects int           // followed; 5; below 0: none
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 2 << 30
	}
	if l.Stall <= 0 {
		l.Stall = 30 * time.Second
	}
	if l.Headers <= 0 {
		l.Headers = 64 << 10
	}
	if l.Redirects == 0 {
		l.Redirects = 5
	}
	return l
}

// Credentials are what may be sent to a server, and how to connect to it.
type Credentials struct {
	// Username and Password are sent (basic authentication) to the host, port
	// and scheme of the Request's URL, and nowhere else. Where both are empty,
	// those of the URL itself are.
	Username, Password string
	CABundle           []byte // PEM, besides the system's
	InsecureSkipVerify bool   // accept any certificate
}

// A Request names a file.
type Request struct {
	URL         string // http or https
	Credentials Credentials
	ETag        string // of an earlier Response; the file comes only if it has another one now
	MaxBytes    int64  // at most; 0, or more than Limits.Bytes: Limits.Bytes
	Checksum    string // "sha256:hex" (or md5, sha1, sha512) that the file must have; empty: any
	// Compressed lets the server send the file gzipped; it is written unpacked. It is
	// for texts. Do not set it for archives: many servers call a .tgz a gzipped .tar.
	Compressed bool
}

// A Response says what came.
type Response struct {
	ETag        string
	NotModified bool   // the file is what it was; nothing was written
	FinalURL    string // after redirects, without user name and password
	Bytes       int64  // written, also where an error came later
	Digest      string // "sha256:hex" of what was written
}

// A Client gets files. It may be used by several goroutines.
type Client struct {
	cfg Config

	mu         sync.Mutex
	transports map[[sha256.Size]byte]*http.Transport
}

// New makes a Client.
func New(cfg Config) *Client {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Minute
	}
	return &Client{cfg: cfg, transports: map[[sha256.Size]byte]*http.Transport{}}
}

// Close ends the connections that are kept. The Client may be used again.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
	clear(c.transports)
}

// Get writes a file to into. After an error, into holds a part of the file or a
// wrong one.
//
// Errors: reconcile.Terminal with the reasons of this package (InvalidURL,
// InvalidCredentials, AuthenticationRefused, NotFound, Refused, TooLarge,
// CertificateRefused, Redirected, AddressRefused, ChecksumMismatch); reconcile.RequeueAfter
// (Unreachable) if the server may answer later; the error of ctx if that was
// cancelled; anything else is a fault of into.
func (c *Client) Get(ctx context.Context, r Request, into io.Writer) (Response, error) {
	d, err := c.prepare(r)
	if err != nil {
		return Response{}, err
	}
	inner, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	inner, stop := context.WithCancelCause(inner)
	defer stop(nil)
	d.watch = time.AfterFunc(c.cfg.Limits.Stall, func() { stop(errStalled) })
	defer d.watch.Stop()

	response, err := d.run(inner, into)
	if err != nil {
		return response, d.explain(ctx, inner, err)
	}
	return response, nil
}

// A download is one Request under way.
type download struct {
	Request
	c        *Client
	url      *url.URL // without user name and password
	max      int64
	check    checksum
	client   *http.Client
	final    *url.URL    // where the last redirect led
	watch    *time.Timer // ends the download if nothing comes, or too little
	slow     bool        // something came since watch was extended
	reported bool        // the last request carried credentials
}

func (c *Client) prepare(r Request) (*download, error) {
	u, err := c.parseURL(r.URL)
	if err != nil {
		return nil, err
	}
	if r.Credentials.Username == "" && r.Credentials.Password == "" && u.User != nil {
		r.Credentials.Username = u.User.Username()
		r.Credentials.Password, _ = u.User.Password()
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	d := &download{Request: r, c: c, url: u, final: u, max: c.cfg.Limits.Bytes}
	if r.MaxBytes > 0 && r.MaxBytes < d.max {
		d.max = r.MaxBytes
	}
	if d.check, err = parseChecksum(r.Checksum); err != nil {
		return nil, err
	}
	transport, err := c.transport(r.Credentials)
	if err != nil {
		return nil, err
	}
	d.client = &http.Client{Transport: transport, CheckRedirect: d.redirect}
	return d, nil
}

// parseURL accepts what can be got, and no address that is not dialled.
func (c *Client) parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, permanentf(ReasonInvalidURL, "the URL cannot be read; a blank or a bare %% in it?")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, permanentf(ReasonInvalidURL, "the URL has scheme %q; want https or http", u.Scheme)
	case u.Hostname() == "":
		return nil, permanentf(ReasonInvalidURL, "the URL %s names no host", withoutQuery(u))
	}
	return u, c.cfg.Addresses.CheckHost(u.Hostname())
}

// withoutQuery returns a URL as a text may show it: a query may be a signature.
func withoutQuery(u *url.URL) string {
	s := u.Scheme + "://" + u.Host + u.EscapedPath()
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return `"` + s + `"`
}

func (d *download) run(ctx context.Context, into io.Writer) (Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return Response{}, permanentf(ReasonInvalidURL, "the URL %s cannot be requested", withoutQuery(d.url))
	}
	req.Header.Set("User-Agent", d.c.cfg.UserAgent)
	req.Header.Set("Accept", "*/*")
	if d.Compressed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if d.ETag != "" {
		req.Header.Set("If-None-Match", d.ETag)
	}
	d.authorize(req)
	res, err := d.client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer res.Body.Close()
	out := Response{FinalURL: d.final.String(), ETag: etagOf(res.Header)}
	if res.StatusCode == http.StatusNotModified && d.ETag != "" {
		out.NotModified, out.ETag = true, d.ETag
		return out, nil
	}
	if res.StatusCode != http.StatusOK {
		return out, d.refusal(res)
	}
	return d.receive(res, out, into)
}

// authorize adds the credentials if the request goes where they are meant for, and
// removes what net/http would reveal.
func (d *download) authorize(req *http.Request) {
	req.Header.Del("Referer")
	req.Header.Del("Authorization")
	d.reported = false
	if (d.Credentials.Username != "" || d.Credentials.Password != "") && sameOrigin(d.url, req.URL) {
		req.SetBasicAuth(d.Credentials.Username, d.Credentials.Password)
		d.reported = true
	}
}

// redirect decides whether to follow, and with what.
func (d *download) redirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > d.c.cfg.Limits.Redirects:
		return permanentf(ReasonRedirected, "%s redirects more than %d times", withoutQuery(d.url), max(d.c.cfg.Limits.Redirects, 0))
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return permanentf(ReasonRedirected, "%s redirects to scheme %q", withoutQuery(d.url), req.URL.Scheme)
	case from.Scheme == "https" && req.URL.Scheme == "http":
		return permanentf(ReasonRedirected, "%s redirects from https to http (%s), where everybody may change it; that is not followed", withoutQuery(d.url), withoutQuery(req.URL))
	case req.URL.Hostname() == "":
		return permanentf(ReasonRedirected, "%s redirects to no host", withoutQuery(d.url))
	}
	if err := d.c.cfg.Addresses.CheckHost(req.URL.Hostname()); err != nil {
		return err
	}
	req.URL.User = nil
	d.authorize(req)
	d.final = req.URL
	d.watch.Reset(d.c.cfg.Limits.Stall)
	return nil
}

// sameOrigin reports whether two URLs have the same host, port and scheme.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// etagOf is an entity tag that can be sent back.
func etagOf(h http.Header) string {
	tag := h.Get("ETag")
	if len(tag) > 1024 || strings.ContainsFunc(tag, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return tag
}

func hexDigest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }
