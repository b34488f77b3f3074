package token

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonAuthority is the reason of events and errors about an apiServerCA that
// does not fit the apiServerURL.
const reasonAuthority = "WrongCertificateAuthority"

// Times of the look at the manager's own address.
const (
	endpointLook  = 10 * time.Minute
	endpointLimit = 5 * time.Second
)

// endpoint checks regularly whether agents can trust the address of the manager
// that they get: whether the certificate at apiServerURL is signed by apiServerCA. An
// agent that cannot trust it has no way to report that to the manager.
type endpoint struct {
	settings registration.Settings
	changed  func() // is called when the answer is another one
	loop     *kube.Controller
	trouble  atomic.Pointer[string] // nil: not checked yet
	other    atomic.Bool            // the answer was another one before, in this process
}

func newEndpoint(settings registration.Settings, changed func()) *endpoint {
	l := &endpoint{settings: settings, changed: changed}
	l.loop = kube.NewController("endpoint", 1, l.Reconcile)
	if settings.APIServerURL != "" {
		l.loop.Add(kube.Key{Name: "apiServerURL"})
	}
	return l
}

// trustProblem returns why agents cannot trust the manager's address; empty if they
// can, or if that is unknown.
func (e *endpoint) trustProblem() string {
	if t := e.trouble.Load(); t != nil {
		return *t
	}
	return ""
}

// Reconcile makes a TLS handshake with the manager's own address. An address that
// cannot be reached from here proves nothing: agents may reach it.
func (e *endpoint) Reconcile(ctx context.Context, _ kube.Key) (kube.Result, error) {
	s := e.settings
	err := checkTrust(ctx, s.APIServerURL, s.APIServerCA, s.AgentTLSMode == registration.TLSStrict)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if was := e.trouble.Swap(&text); was == nil && text != "" || was != nil && *was != text {
		e.other.Store(was != nil)
		e.changed()
	}
	if err != nil {
		return kube.Done, reconcile.RequeueError(reasonAuthority, endpointLook, err)
	}
	return kube.Result{After: endpointLook}, nil
}

// checkTrust returns why an agent with this address and CA would not trust the server;
// nil if it would, or if that is unknown.
func checkTrust(ctx context.Context, address string, ca []byte, strict bool) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" {
		return nil
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, endpointLimit)
	defer cancel()
	pools := []*x509.CertPool{nil} // the system's
	if len(ca) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return fmt.Errorf("apiServerCA holds no PEM certificate: agents cannot trust %s by it", address)
		}
		pools = append(pools, pool)
		if strict {
			pools = pools[1:]
		}
	}
	var refused error
	for _, pool := range pools {
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
		conn, err := d.DialContext(ctx, "tcp", host)
		var verify *tls.CertificateVerificationError
		switch {
		case err == nil:
			_ = conn.Close()
			return nil
		case !errors.As(err, &verify):
			return nil
		}
		refused = verify.Err
	}
	return fmt.Errorf("agents do not trust the certificate at %s by the apiServerCA that they are given: %w; set apiServerCA to the authority that signed it",
		address, refused)
}
