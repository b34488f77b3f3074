package web

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// maxTransports bounds how many kinds of trust a Client keeps connections for.
const maxTransports = 32

// transport is the one for what is trusted. Credentials are not part of it:
// they belong to requests.
func (c *Client) transport(with Credentials) (*http.Transport, error) {
	h := sha256.New()
	_, _ = h.Write([]byte{map[bool]byte{true: 1}[with.InsecureSkipVerify]})
	_, _ = h.Write(with.CABundle)
	key := [sha256.Size]byte(h.Sum(nil))

	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.transports[key]; t != nil {
		return t, nil
	}
	roots, err := rootsOf(with.CABundle)
	if err != nil {
		return nil, err
	}
	if len(c.transports) >= maxTransports {
		for _, t := range c.transports {
			t.CloseIdleConnections()
		}
		clear(c.transports)
	}
	t := &http.Transport{
		Proxy:                  c.cfg.Proxy,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second, ControlContext: c.refuseAddress}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: with.InsecureSkipVerify},
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: c.cfg.Limits.Headers,
		OnProxyConnectResponse: proxyAnswer,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
	}
	c.transports[key] = t
	return t, nil
}

// proxyAnswer makes an error of this package of a proxy's refusal.
func proxyAnswer(_ context.Context, at *url.URL, connect *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return proxyRefusal(at.Host, &url.URL{Scheme: "https", Host: connect.Host}, answer.StatusCode)
}

// rootsOf are the system's authorities and the given ones; nil: the system's.
func rootsOf(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, permanentf(ReasonInvalidCredentials, "the CA bundle holds no certificate in PEM form")
	}
	return pool, nil
}

// refuseAddress checks the address that a name resolves to.
func (c *Client) refuseAddress(_ context.Context, _, endpoint string, _ syscall.RawConn) error {
	return c.cfg.Addresses.CheckEndpoint(endpoint)
}
