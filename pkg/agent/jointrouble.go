package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Reasons why an agent cannot register, besides those of a connection.
const (
	reasonUnregistered = "NotRegistered"   // and there is no token
	reasonToken        = "TokenRefused"    // the manager does not know it (any more)
	reasonTokenRights  = "TokenMayNotAsk"  // it is for another namespace
	reasonNoFleet      = "NoFleetThere"    // an API server without Fleet's kinds
	reasonIncomplete   = "TokenIncomplete" // values are missing
)

// noTokenTrouble returns the trouble of an agent without credential and token.
func noTokenTrouble(namespace string) trouble {
	return trouble{reason: reasonUnregistered, hint: joinHint(namespace)}
}

// troubleOfToken returns why an agent could not register with a token. namespace is the
// agent's.
func troubleOfToken(err error, b registration.Bootstrapping, namespace string) trouble {
	anew := "on the manager: fleet install agent-token; here: helm upgrade fleet-agent -n " + namespace + " with the values of the new token"
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(err, register.ErrIncomplete):
		return trouble{reasonIncomplete, "cannot be asked: the values of the registration token are incomplete", anew}
	case errors.Is(err, register.ErrUnanswered):
		return trouble{reasonPending, "has not answered for half an hour",
			"look at the manager's log and at its ClusterRegistrations; fleet cluster accept, if it waits for a person"}
	case errors.As(err, &verify):
		return trouble{reasonCertificate, "shows a certificate that the apiServerCA of the registration token's values does not vouch for",
			authorityHint(err, b)}
	case kube.IsDenied(err):
		return trouble{reasonDenied, "denies the request of this agent",
			"look at the admission webhook or policy that the message names; the registration token is not refused"}
	case kube.IsUnauthorized(err):
		return trouble{reasonToken, fmt.Sprintf("does not know the registration token %q: it has expired or was removed", b.TokenName), anew}
	case kube.IsForbidden(err):
		return trouble{reasonTokenRights, fmt.Sprintf("does not let the registration token %q ask in namespace %q: it is for another one, has another name, or is being removed",
			b.TokenName, b.ClusterNamespace), anew}
	case kube.IsGone(err):
		return trouble{reasonNoFleet, "has no Fleet: it does not know ClusterRegistrations", "look at apiServerURL; on the manager: fleet check"}
	}
	return troubleOf(err, namespace)
}

// authorityHint returns what helps if the CA in the values of a token did not sign the
// manager's certificate.
func authorityHint(err error, b registration.Bootstrapping) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "look at the clock of this machine, and at the validity of the manager's certificate"
	case errors.As(err, &name):
		return "the certificate is for another address than " + b.APIServerURL + ": set apiServerURL of the chart fleet to one that it is for"
	case len(b.APIServerCA) == 0:
		return "the values have no apiServerCA, and the system knows none: set apiServerCA of the chart fleet to the authority that signed it, and use the values of a token again"
	}
	return "set apiServerCA of the chart fleet to the authority that signed it, and use the values of a token again"
}
