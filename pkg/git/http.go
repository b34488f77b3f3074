package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// maxRedirects is how many redirects the first request may follow.
const maxRedirects = 5

// An httpSession speaks git's smart HTTP protocol.
type httpSession struct {
	e              *sourceEntry
	to             service
	base           *url.URL // without credentials; moves with a redirect
	user, password string
	client         *http.Client
}

// newHTTPSession returns a session with the credentials of a source. For a GitHub App it
// gets a token, with a request if there is none.
func newHTTPSession(ctx context.Context, e *sourceEntry, to service) (*httpSession, error) {
	s := &httpSession{e: e, to: to, base: e.ep.baseURL()}
	s.user, s.password = e.src.Credentials.basic(e.ep)
	if e.src.Credentials.App != nil {
		token, err := e.apps.token(ctx, e)
		if err != nil {
			return nil, err
		}
		s.user, s.password = appUser, token
	}
	s.client = &http.Client{Transport: e.transport, CheckRedirect: s.checkRedirect}
	return s, nil
}

// tlsConfig is the TLS configuration of a source.
func tlsConfig(src Source) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if src.InsecureSkipTLSVerify {
		cfg.InsecureSkipVerify = true //nolint:gosec // spec.insecureSkipTLSVerify asks for it
	}
	if len(src.CABundle) == 0 {
		return cfg, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(src.CABundle) {
		return nil, permanentf(ReasonInvalidCredentials, "caBundle holds no PEM certificate: want the text from BEGIN CERTIFICATE to END CERTIFICATE with both lines, in base64 once")
	}
	cfg.RootCAs = pool
	return cfg, nil
}

// checkRedirect lets the first request move within its host, and elsewhere
// only where no credential travels with it.
func (s *httpSession) checkRedirect(req *http.Request, via []*http.Request) error {
	first, last := via[0].URL, via[len(via)-1].URL
	if err := s.e.addresses.CheckHost(req.URL.Hostname()); err != nil {
		return err
	}
	switch {
	case req.Method != http.MethodGet || first.RawQuery != req.URL.RawQuery:
		return permanentf(ReasonRedirected, "git host %q redirects elsewhere than git's protocol allows", s.e.ep.display())
	case len(via) > maxRedirects:
		return permanentf(ReasonRedirected, "git host %q redirects more than %d times", s.e.ep.display(), maxRedirects)
	case last.Scheme == "https" && req.URL.Scheme != "https", req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return permanentf(ReasonRedirected, "git host %q redirects from https to %s", s.e.ep.display(), req.URL.Scheme)
	case !strings.HasSuffix(req.URL.Path, "/info/refs"):
		return permanentf(ReasonRedirected, "git host %q redirects to something that is no repository (a login page?)", s.e.ep.display())
	case s.user == "" && s.password == "":
		return nil
	case !strings.EqualFold(first.Hostname(), req.URL.Hostname()) || !samePort(first, req.URL):
		return permanentf(ReasonRedirected, "git host %q redirects to %q; credentials are not sent there: put the new address into spec.repo",
			s.e.ep.display(), req.URL.Host)
	}
	req.SetBasicAuth(s.user, s.password)
	return nil
}

// samePort allows http to become https on the default ports.
func samePort(from, to *url.URL) bool {
	return from.Port() == to.Port() && (from.Port() == "" || from.Scheme == to.Scheme)
}

func (s *httpSession) advertised(ctx context.Context, keep func(name []byte) bool) (*packp.AdvRefs, error) {
	u := *s.base
	u.Path += "/info/refs"
	u.RawQuery = "service=" + string(s.to)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, permanentf(ReasonInvalidURL, "repository URL cannot be requested")
	}
	res, err := s.send(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); kind != "application/x-"+string(s.to)+"-advertisement" {
		return nil, permanentf(ReasonNotGit, "git host %q answers, but not as a git server (smart HTTP is needed)", s.e.ep.display())
	}
	if res.Request != nil { // after redirects
		moved := *res.Request.URL
		moved.Path = strings.TrimSuffix(moved.Path, "/info/refs")
		moved.RawQuery, moved.User = "", nil
		s.base = &moved
	}
	refs, err := decodeRefs(res.Body, keep)
	return refs, answered(err)
}

func (s *httpSession) uploadPack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := req.UploadRequest.Encode(&body); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if err := req.UploadHaves.Encode(&body, false); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if err := pktline.NewEncoder(&body).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return s.post(ctx, &body)
}

func (s *httpSession) receivePack(ctx context.Context, req []byte) (io.ReadCloser, error) {
	return s.post(ctx, bytes.NewBuffer(req))
}

// post sends the request of a service; the caller reads the answer and closes it.
func (s *httpSession) post(ctx context.Context, body *bytes.Buffer) (io.ReadCloser, error) {
	u := *s.base
	u.Path += "/" + string(s.to)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return nil, permanentf(ReasonInvalidURL, "repository URL cannot be requested")
	}
	post.Header.Set("Content-Type", "application/x-"+string(s.to)+"-request")
	post.Header.Set("Accept", "application/x-"+string(s.to)+"-result")
	res, err := s.send(post)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// send sends a request with credentials and judges the status of the answer.
func (s *httpSession) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", s.e.userAgent)
	if s.user != "" || s.password != "" {
		req.SetBasicAuth(s.user, s.password)
	}
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}
	res, err := s.client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		var urlErr *url.Error // its text repeats the URL
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		if connected.Load() {
			err = answered(err)
		}
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized && s.e.src.Credentials.App != nil {
		s.e.apps.refused(s.e, s.password)
	}
	if s.to == serviceReceive && res.StatusCode == http.StatusForbidden && (s.user != "" || s.password != "") {
		return nil, s.writeRefusal(res)
	}
	return nil, s.refusal(res.StatusCode)
}

// writeRefusal is the error for credentials that do not allow to write, with what the
// server says if that is plain text.
func (s *httpSession) writeRefusal(res *http.Response) error {
	text := fmt.Sprintf("git host %q lets these credentials not write to %q (%d)", s.e.ep.display(), strings.Trim(s.e.ep.path, "/"), res.StatusCode)
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); kind == "text/plain" {
		said, _ := io.ReadAll(io.LimitReader(res.Body, maxStderrBytes)) // a part of it is enough
		if words := strings.ReplaceAll(string(said), s.secret(), "***"); strings.TrimSpace(words) != "" {
			text += ": it says " + s.e.quote(words)
		}
	}
	return permanentf(ReasonPushRefused, "%s", text)
}

// secret is the credential that is sent, which may be a token that no Secret contains.
func (s *httpSession) secret() string {
	if s.password == "" {
		return s.user
	}
	return s.password
}

func (s *httpSession) refusal(status int) error {
	host, anonymous := s.e.ep.display(), s.user == "" && s.password == ""
	switch {
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && anonymous:
		return permanentf(ReasonAuthenticationRefused, "git host %q asks for credentials (%d); none are set (clientSecretName)", host, status)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return permanentf(ReasonAuthenticationRefused, "git host %q refuses the credentials (%d)", host, status)
	case status == http.StatusNotFound || status == http.StatusGone:
		text := fmt.Sprintf("git host %q has no repository %q (%d)", host, strings.Trim(s.e.ep.path, "/"), status)
		if anonymous {
			text += ", or it is private"
		}
		return permanentf(ReasonRepositoryNotFound, "%s", text)
	case status == http.StatusProxyAuthRequired:
		return s.e.proxyCredentials()
	case status >= 300 && status < 400:
		return permanentf(ReasonRedirected, "git host %q redirects without saying where to (%d)", host, status)
	case status == http.StatusTooManyRequests:
		return unreachablef("git host %q cannot be reached: it answers no more requests for now (%d)", host, status)
	}
	return failingf("git host %q cannot serve %q: it answers %d %s", host, strings.Trim(s.e.ep.path, "/"), status, http.StatusText(status))
}

func (s *httpSession) close() {}
