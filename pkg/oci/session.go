package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

const (
	connectTimeout = 10 * time.Second
	answerTimeout  = 30 * time.Second
	headerBytes    = 64 << 10
	// metadataBytes is how large a manifest, or one page of tags, may be.
	metadataBytes = 4 << 20
)

// A session is one call: its connections, its tokens, what it is about.
type session struct {
	repo      *remote.Repository
	ref       registry.Reference
	host      string // of the registry, for messages
	artifact  string // path and tag, for messages
	anonymous bool
	guard     *requestGuard
	transport *http.Transport
	cancel    context.CancelFunc
}

// open starts a call about reference (without scheme). The caller closes the
// session, and works with the context that is returned.
func (c *Client) open(ctx context.Context, r Registry, reference string) (context.Context, *session, error) {
	if err := r.validate(); err != nil {
		return ctx, nil, err
	}
	ref, err := registry.ParseReference(reference)
	if err != nil || !isHost(ref.Host()) {
		return ctx, nil, permanentf(ReasonInvalidReference, "%q is no place in a registry; want host[:port]/path, in lower case", withoutCredentials(reference))
	}
	trust, err := tlsConfig(r)
	if err != nil {
		return ctx, nil, err
	}
	s := &session{ref: ref, host: ref.Registry, artifact: ref.Repository, anonymous: r.Username == ""}
	s.transport = &http.Transport{
		Proxy:                  c.cfg.Proxy,
		DialContext:            (&net.Dialer{Timeout: connectTimeout, ControlContext: c.refuseAddress}).DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  min(answerTimeout, c.cfg.Timeout),
		MaxResponseHeaderBytes: headerBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		OnProxyConnectResponse: proxyAnswer,
	}
	s.guard = &requestGuard{next: s.transport, registry: origin{"https", ref.Host()}, addresses: c.cfg.Addresses, anonymous: s.anonymous, stall: c.cfg.Stall}
	if r.BasicHTTP {
		s.guard.registry.scheme = "http"
	}
	client := &auth.Client{
		Client: &http.Client{Transport: s.guard, CheckRedirect: s.guard.checkRedirect},
		Cache:  auth.NewCache(),
	}
	client.SetUserAgent(c.cfg.UserAgent)
	if !s.anonymous {
		client.Credential = auth.StaticCredential(ref.Host(), auth.Credential{Username: r.Username, Password: r.Password})
	}
	s.repo = &remote.Repository{Client: client, Reference: ref, PlainHTTP: r.BasicHTTP, MaxMetadataBytes: metadataBytes}
	// Nothing of ours refers to another manifest, so there is no index of
	// referrers to keep.
	if err := s.repo.SetReferrersCapability(true); err != nil {
		return ctx, nil, err
	}
	ctx, s.cancel = context.WithTimeout(ctx, c.cfg.Timeout)
	return ctx, s, nil
}

func (s *session) close() {
	s.cancel()
	s.transport.CloseIdleConnections()
}

// validate finds credentials that can only be a mistake.
func (r Registry) validate() error {
	for key, value := range map[string]string{"username": r.Username, "password": r.Password} {
		if !printable(value) {
			return permanentf(ReasonInvalidCredentials, "the %s contains control characters (a line break at its end?)", key)
		}
	}
	switch {
	case r.Username == "" && r.Password != "":
		return permanentf(ReasonInvalidCredentials, "a password for registry %q is set, but no user name", withoutCredentials(r.Reference))
	case r.Username != "" && r.Password == "":
		return permanentf(ReasonInvalidCredentials, "a user name for registry %q is set, but no password", withoutCredentials(r.Reference))
	case strings.Contains(r.Username, ":"):
		return permanentf(ReasonInvalidCredentials, "the user name for registry %q contains a colon", withoutCredentials(r.Reference))
	}
	return nil
}

// tlsConfig is the TLS configuration of a registry.
func tlsConfig(r Registry) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.InsecureSkipVerify {
		cfg.InsecureSkipVerify = true //nolint:gosec // the Secret asks for it
	}
	if len(r.CABundle) == 0 {
		return cfg, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(r.CABundle) {
		return nil, permanentf(ReasonInvalidCredentials, "the CA bundle for registry %q holds no PEM certificate", withoutCredentials(r.Reference))
	}
	cfg.RootCAs = pool
	return cfg, nil
}

// refuseAddress checks the address that a name resolves to.
func (c *Client) refuseAddress(_ context.Context, _, endpoint string, _ syscall.RawConn) error {
	return c.cfg.Addresses.CheckEndpoint(endpoint)
}

// isHost reports whether host is host[:port] and nothing else.
func isHost(host string) bool {
	u, err := url.Parse("https://" + host + "/")
	return err == nil && u.Host == host && u.Hostname() != "" && u.User == nil && u.Path == "/"
}

// withoutIgnored is a reference without what is ignored in it.
func withoutIgnored(reference string) string {
	return strings.TrimRight(strings.TrimPrefix(reference, "oci://"), "/")
}

// withoutCredentials is a reference without what may be a credential in it.
func withoutCredentials(reference string) string {
	reference = withoutIgnored(reference)
	host, path, _ := strings.Cut(reference, "/")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = "***" + host[i:]
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
