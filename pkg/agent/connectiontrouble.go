package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Reasons why the manager cannot be worked with, as events and the ConfigMap
// fleet-agent-contact name them.
const (
	reasonAway        = "ManagerAway"        // no connection
	reasonSilent      = "ManagerSilent"      // a connection, and no answer
	reasonFailing     = "ManagerFailing"     // the manager answers with another error
	reasonBusy        = "ManagerBusy"        // the manager answers with 429
	reasonDenied      = "RequestDenied"      // admission of the manager denies the agent's writes
	reasonCertificate = "CertificateRefused" // the manager's certificate is not trusted by the agent
	reasonCredential  = "CredentialRefused"  // the manager does not accept the credential (any more)
	reasonEnded       = "CredentialEnded"    // the credential has expired, and the manager does not renew it any more
	reasonRights      = "RightsRefused"      // the manager accepts the credential, which has no rights
	reasonUnknown     = "ClusterUnknown"     // the manager has no such Cluster
	reasonUnusable    = "CredentialUnusable" // the credential cannot even be tried
)

// A trouble is why the agent cannot work with the manager, in words for users.
type trouble struct {
	reason string
	what   string // "the manager at <url> ..."
	hint   string // what helps
}

// refused reports whether the manager answers and refuses the credential.
func (t trouble) refused() bool {
	return t.reason == reasonCredential || t.reason == reasonRights || t.reason == reasonEnded
}

// troubleOf returns why a check-in failed. namespace is the agent's.
func troubleOf(err error, namespace string) trouble {
	join := joinHint(namespace)
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &verify):
		return trouble{reasonCertificate, "shows a certificate that this agent does not trust", certificateHint(err, join)}
	case errors.As(err, &record):
		return trouble{reasonCertificate, "does not speak TLS", "look for a proxy in between, and at the address"}
	case kube.IsDenied(err): // with any code, also 401 and 403
		return trouble{reasonDenied, "denies the request of this agent",
			"look at the admission webhook or policy that the message names; the credential is not refused"}
	case kube.IsUnauthorized(err):
		return trouble{reasonCredential, "refuses the credential: it has expired, was revoked, or another agent has registered with the identity of this cluster", join}
	case kube.IsForbidden(err):
		return trouble{reasonRights, "refuses the rights of the credential: they were revoked, or the cluster was removed there", join}
	case kube.IsGone(err):
		return trouble{reasonUnknown, "has no such cluster: it was removed there, or the manager was restored from an older backup", join}
	case kube.IsBusy(err):
		return trouble{reasonBusy, "has too much to do", "nothing to do here; look at the manager's API server"}
	case isTimeout(err):
		return trouble{reasonSilent, "does not answer", "look at the link, at proxies and firewalls in between, and at the manager"}
	case errors.As(err, &status):
		return trouble{reasonFailing, "answers with an error", "nothing to do here; look at the manager's API server"}
	}
	return trouble{reasonAway, "cannot be reached", "look at the link and at the address; nothing to do if the link is meant to be down"}
}

// unusableCredential returns the trouble of a credential that cannot be parsed.
func unusableCredential(namespace string) trouble {
	return trouble{reasonUnusable, "cannot be asked: the credential in the Secret fleet-agent is broken", joinHint(namespace)}
}

// joinHint returns what a user does if the credential is of no use any more.
func joinHint(namespace string) string {
	return "to join again: helm upgrade fleet-agent -n " + namespace + " with the values of a new registration token"
}

// isTimeout reports whether a time limit was reached.
func isTimeout(err error) bool {
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// certificateHint returns what helps if the agent does not accept the manager's
// certificate.
func certificateHint(err error, join string) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "look at the clock of this machine, and at the validity of the manager's certificate"
	case errors.As(err, &name):
		return "the certificate is for another address; " + join
	}
	return "if the manager has a new certificate authority (apiServerCA), this agent has to be told: " + join
}
