package agentmanagement

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// When something is looked at again that no watch reports: what a person has to fix,
// and what a server may fix itself.
const (
	importRetry = 10 * time.Minute
	serverRetry = 30 * time.Second
)

// reach asks an API server for its version, without a credential, and returns
// the access with the authorities that its certificate is to be checked against
// from then on. In mode system-store those are the system's, if they vouch for
// it; else, and in mode strict, the kubeconfig's.
//
// Nothing that the server says is in an error: the author of the kubeconfig chooses the
// server that is asked, and would read the answer.
func reach(ctx context.Context, a kubeconfig.Access, mode string, policy kube.ImportPolicy) (kubeconfig.Access, error) {
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
	case notAsked(err) != nil:
		return a, refusal(a.Server, notAsked(err))
	case v.refused != nil:
		return a, reconcile.RequeueError(clusterimport.ReasonUntrusted, importRetry, fmt.Errorf("reach %s: its certificate is not to be trusted: %w", a.Server, v.refused))
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
	system  bool  // the system's authorities vouch for it
	refused error // why no authority does
}

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

// verify tries the system's authorities and then the kubeconfig's.
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

// unreachable says that an API server did not answer.
type unreachable struct {
	server string
	cause  error
}

// Error returns the reason in words that are the same each time.
func (u *unreachable) Error() string {
	var dns *net.DNSError
	var op *net.OpError
	why := "no connection"
	switch {
	case errors.Is(u.cause, context.DeadlineExceeded) || timedOut(u.cause):
		why = "no answer in time"
	case errors.As(u.cause, &dns):
		why = "its name is not known here"
	case errors.As(u.cause, &op) && op.Op == "dial":
		why = "the connection is refused"
	}
	return fmt.Sprintf("reach %s: %s; the agent is installed once the manager reaches it", u.server, why)
}

func (u *unreachable) Unwrap() error { return u.cause }

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// notAsked is why a request was not sent: its address, or that it has no TLS; nil
// where it was sent.
func notAsked(err error) error {
	var p *reconcile.Terminal
	if errors.As(err, &p) && (p.Reason == address.ReasonRefused || p.Reason == kube.ReasonPlainHTTP) {
		return p
	}
	return nil
}

// refusal reports a server that is not asked. Its name may lead elsewhere later.
func refusal(server string, why error) error {
	hint := ""
	if reconcile.ReasonOf(why) == kube.ReasonPlainHTTP {
		hint = ", which agentTLSMode strict does not allow: use https"
	}
	return reconcile.RequeueError(reconcile.ReasonOf(why), importRetry, fmt.Errorf("reach %s: %w%s", server, why, hint))
}

// isUnreachable reports whether an import failed because the cluster's API server
// did not answer.
func isUnreachable(err error) bool {
	var u *unreachable
	return errors.As(err, &u)
}

// plain is an error of a request to a downstream cluster in the manager's own
// words.
func plain(server string, err error) error {
	var status apierrors.APIStatus
	switch {
	case notAsked(err) != nil:
		return refusal(server, notAsked(err))
	case errors.Is(err, kube.ErrTooLarge):
		return reconcile.RequeueError(clusterimport.ReasonTooLarge, importRetry,
			fmt.Errorf("install the agent at %s: the answer to an attempt to %s is larger than what is read of it; is that an API server?", server, tried(err)))
	case err == nil, reconcile.IsTerminal(err), reconcile.IsRequeue(err), isUnreachable(err):
		return err
	case kube.IsDenied(err):
		return reconcile.RequeueError(clusterimport.ReasonDenied, importRetry,
			fmt.Errorf("install the agent at %s: an admission webhook or policy of that cluster denies an attempt to %s: it has to let the kubeconfig's user do that",
				server, tried(err)))
	case kube.IsUnauthorized(err):
		return reconcile.RequeueError(clusterimport.ReasonRefused, importRetry,
			fmt.Errorf("install the agent at %s: the credential of the kubeconfig is not accepted (401): renew it", server))
	case kube.IsForbidden(err):
		return reconcile.RequeueError(clusterimport.ReasonRefused, importRetry,
			fmt.Errorf("install the agent at %s: the kubeconfig's user may not %s (403): it has to be an administrator", server, tried(err)))
	case errors.As(err, &status):
		return reconcile.RequeueError(fleet.ReasonError, serverRetry,
			fmt.Errorf("install the agent at %s: an attempt to %s is answered with %d", server, tried(err), status.Status().Code))
	}
	return &unreachable{server: server, cause: err}
}

// tried is what a store's error says was tried, without the server's answer.
func tried(err error) string {
	for text := err.Error(); ; {
		inner := errors.Unwrap(err)
		if inner == nil {
			return "do a request"
		}
		if end := len(text) - len(inner.Error()) - len(": "); end > 0 && text[end:] == ": "+inner.Error() {
			return text[:end]
		}
		err, text = inner, inner.Error()
	}
}
