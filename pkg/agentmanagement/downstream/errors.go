package downstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Retry is when something is looked at again that no watch reports and a person has to
// fix; serverRetry, what a server may fix itself.
const (
	Retry       = 10 * time.Minute
	serverRetry = 30 * time.Second
)

// unreachable says that an API server did not answer.
type unreachable struct {
	server string
	cause  error
}

// Error returns the reason. The text is the same for the same reason.
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

// timedOut reports whether an error is a timeout.
func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// notSentReason returns why a request was not sent: its address is forbidden, or has no
// TLS; nil if it was sent.
func notSentReason(err error) error {
	var p *reconcile.Terminal
	if errors.As(err, &p) && (p.Reason == address.ReasonRefused || p.Reason == kube.ReasonPlainHTTP) {
		return p
	}
	return nil
}

// refusedError returns the error for a server that the manager does not connect to. The
// name of the server may resolve to another address later.
func refusedError(server string, why error) error {
	hint := ""
	if reconcile.ReasonOf(why) == kube.ReasonPlainHTTP {
		hint = ", which agentTLSMode strict does not allow: use https"
	}
	return reconcile.RequeueError(reconcile.ReasonOf(why), Retry, fmt.Errorf("reach %s: %w%s", server, why, hint))
}

// IsUnreachable reports whether an import failed because the cluster's API server
// did not answer.
func IsUnreachable(err error) bool {
	var u *unreachable
	return errors.As(err, &u)
}

// Plain returns the error of a request to a downstream cluster without texts of its
// server.
func Plain(server string, err error) error {
	var status apierrors.APIStatus
	switch {
	case notSentReason(err) != nil:
		return refusedError(server, notSentReason(err))
	case errors.Is(err, kube.ErrTooLarge):
		return reconcile.RequeueError(clusterimport.ReasonTooLarge, Retry,
			fmt.Errorf("install the agent at %s: the answer to an attempt to %s is larger than what is read of it; is that an API server?", server, requestOf(err)))
	case err == nil, reconcile.IsTerminal(err), reconcile.IsRequeue(err), IsUnreachable(err):
		return err
	case kube.IsDenied(err):
		return reconcile.RequeueError(clusterimport.ReasonDenied, Retry,
			fmt.Errorf("install the agent at %s: an admission webhook or policy of that cluster denies an attempt to %s: it has to let the kubeconfig's user do that",
				server, requestOf(err)))
	case kube.IsUnauthorized(err):
		return reconcile.RequeueError(clusterimport.ReasonRefused, Retry,
			fmt.Errorf("install the agent at %s: the credential of the kubeconfig is not accepted (401): renew it", server))
	case kube.IsForbidden(err):
		return reconcile.RequeueError(clusterimport.ReasonRefused, Retry,
			fmt.Errorf("install the agent at %s: the kubeconfig's user may not %s (403): it has to be an administrator", server, requestOf(err)))
	case errors.As(err, &status):
		return reconcile.RequeueError(fleet.ReasonError, serverRetry,
			fmt.Errorf("install the agent at %s: an attempt to %s is answered with %d", server, requestOf(err), status.Status().Code))
	}
	return &unreachable{server: server, cause: err}
}

// requestOf returns the request that an error of a Store names, without the server's
// answer.
func requestOf(err error) string {
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

// ReasonOf returns the reason of a failed import as one word.
func ReasonOf(err error) string {
	if IsUnreachable(err) {
		return clusterimport.ReasonUnreachable
	}
	return reconcile.ReasonOf(err)
}
