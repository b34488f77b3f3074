package downstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Reach requests the version of an API server without a credential, and returns the
// access with the CAs that its certificate must be verified with. In mode system-store
// these are the system's CAs, if they verify the certificate; else, and in mode strict,
// the kubeconfig's.
//
// Errors contain nothing that the server says: the author of the kubeconfig chooses the
// server, and would otherwise read answers of servers that the author cannot reach.
func Reach(ctx context.Context, a kubeconfig.Access, mode string, policy kube.ImportPolicy) (kubeconfig.Access, error) {
	if a.Insecure && mode == registration.TLSStrict {
		return a, reconcile.TerminalError(clusterimport.ReasonUntrusted,
			fmt.Errorf("reach %s: the kubeconfig says insecure-skip-tls-verify, which agentTLSMode strict does not allow", a.Server))
	}
	v := &verifier{access: a, strict: mode == registration.TLSStrict}
	client, err := v.client(policy)
	if err != nil {
		return a, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Server+"/version", nil)
	if err != nil {
		return a, reconcile.TerminalError(kubeconfig.ReasonUnreadable, fmt.Errorf("reach %s: no address of an API server", a.Server))
	}
	answer, err := client.Do(req)
	switch {
	case err == nil:
		_ = answer.Body.Close()
	case notSentReason(err) != nil:
		return a, refusedError(a.Server, notSentReason(err))
	case v.refused != nil:
		return a, reconcile.RequeueError(clusterimport.ReasonUntrusted, Retry, fmt.Errorf("reach %s: its certificate is not to be trusted: %w", a.Server, v.refused))
	default:
		return a, &unreachable{server: a.Server, cause: err}
	}
	if v.system {
		a.CA = nil
	}
	return a, nil
}

// A verifier checks a server's certificate by the rules of the TLS modes.
type verifier struct {
	access  kubeconfig.Access
	strict  bool
	system  bool  // the system's CAs verify the certificate
	refused error // why no authority does
}

// client returns an HTTP client that verifies certificates by verify.
func (v *verifier) client(policy kube.ImportPolicy) (*http.Client, error) {
	name := v.access.ServerName
	if name == "" {
		u, err := url.Parse(v.access.Server)
		if err != nil {
			return nil, reconcile.TerminalError(kubeconfig.ReasonUnreadable, errors.New("reach: no address of an API server"))
		}
		name = u.Hostname()
	}
	cfg, err := kube.RESTOf(v.access)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: policy.Transport(&tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: name,
			InsecureSkipVerify: true, //nolint:gosec // verified below, by one pool and then by another
			VerifyConnection:   func(s tls.ConnectionState) error { return v.verify(s, name) },
		}, cfg.Proxy),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// verify tries the system's CAs and then the kubeconfig's.
func (v *verifier) verify(s tls.ConnectionState, name string) error {
	if v.access.Insecure {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	try := func(roots *x509.CertPool) error {
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
		return err
	}
	if !v.strict || len(v.access.CA) == 0 {
		err := try(nil)
		if err == nil {
			v.system = true
			return nil
		}
		if len(v.access.CA) == 0 {
			v.refused = err
			return err
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(v.access.CA)
	v.refused = try(roots)
	return v.refused
}
