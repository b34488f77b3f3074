package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

func TestTroubleOfToken(t *testing.T) {
	b := registration.Bootstrapping{APIServerURL: "https://m", TokenName: "store", ClusterNamespace: "team-a", Token: "eyJ-secret", APIServerCA: []byte("PEM")}
	kind := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusterregistrations"}
	refused := func(err error) error {
		return fmt.Errorf("ask: %w", &tls.CertificateVerificationError{Err: err})
	}
	cases := map[string]struct {
		why        string
		err        error
		noCA       bool
		reason     string
		what, hint string
	}{
		"Expired": {
			why: "a person has to know which token, and what to do", err: fmt.Errorf("ask: %w", apierrors.NewUnauthorized("no")),
			reason: reasonToken, what: `"store": it has expired or was removed`, hint: "fleet install agent-token",
		},
		"OtherNamespace": {
			why: "values were mixed", err: apierrors.NewForbidden(kind, "", errors.New("no")),
			reason: reasonTokenRights, what: `ask in namespace "team-a"`, hint: "values of the new token",
		},
		"Denied": {
			why: "an admission webhook has refused the request, and nobody the token", err: fmt.Errorf("ask: %w", apierrors.NewUnauthorized(kubetest.DeniedText)),
			reason: reasonDenied, what: "denies the request", hint: "the registration token is not refused",
		},
		"NoFleet":    {why: "another cluster's address", err: fmt.Errorf("ask: %w", kube.ErrGone), reason: reasonNoFleet, what: "no Fleet", hint: "apiServerURL"},
		"Incomplete": {why: "half a file", err: fmt.Errorf("%w: no token", register.ErrIncomplete), reason: reasonIncomplete, what: "incomplete"},
		"Unanswered": {why: "nobody accepts it", err: fmt.Errorf("wait: %w", register.ErrUnanswered), reason: reasonPending, hint: "fleet cluster accept"},
		"WrongCA": {
			why: "the manager's chart has another authority", err: refused(x509.UnknownAuthorityError{}),
			reason: reasonCertificate, what: "apiServerCA", hint: "set apiServerCA of the chart fleet",
		},
		"NoCA": {
			why: "the manager's chart has none", err: refused(x509.UnknownAuthorityError{}), noCA: true,
			reason: reasonCertificate, what: "apiServerCA", hint: "have no apiServerCA",
		},
		"OtherName": {
			why: "the address is none of the certificate's", err: refused(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "m"}),
			reason: reasonCertificate, hint: "another address than https://m",
		},
		"Clock": {
			why: "a clock of 1970 knows no valid certificate", err: refused(x509.CertificateInvalidError{Reason: x509.Expired}),
			reason: reasonCertificate, hint: "clock",
		},
		"Away": {why: "as for every connection", err: errors.New("connection refused"), reason: reasonAway},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			given := b
			if c.noCA {
				given.APIServerCA = nil
			}
			got := troubleOfToken(c.err, given, "ns")
			if got.reason != c.reason || !strings.Contains(got.what, c.what) || !strings.Contains(got.hint, c.hint) || got.hint == "" {
				t.Errorf("%s: got %+v", c.why, got)
			}
			if strings.Contains(got.what+got.hint, b.Token) {
				t.Error("the token is shown")
			}
		})
	}
}
