package reconcile_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// The advice is what helps: another authority does not help against a certificate that is
// for another name or has expired.
func TestUntrustedOf(t *testing.T) {
	from, to := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	expired := func(ca bool, detail string) error {
		return x509.CertificateInvalidError{Cert: &x509.Certificate{NotBefore: from, NotAfter: to, IsCA: ca}, Reason: x509.Expired, Detail: detail}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"Authority": {x509.UnknownAuthorityError{}, "certificate signed by unknown authority"},
		"Name": {x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"git.example"}}, Host: "git"},
			"certificate is valid for git.example, not git; use a name that the certificate is for, or give the server a certificate for this name"},
		"Expired":          {expired(false, "current time a is after b"), "certificate has expired at 2026-02-03T04:05:06Z; the server needs a new certificate"},
		"ExpiredAuthority": {expired(true, "current time a is after b"), "certificate has expired at 2026-02-03T04:05:06Z"},
		"Early":            {expired(false, "current time a is before b"), "certificate is not valid before 2026-01-02T03:04:05Z; check the clock here and that of the server"},
		"Usage":            {x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "certificate specifies an incompatible key usage"},
	} {
		got := reconcile.UntrustedOf(fmt.Errorf("read: %w", &tls.CertificateVerificationError{Err: c.err}))
		if got == nil || got.Error() != c.want {
			t.Errorf("%s: want %s, got %v", name, c.want, got)
		}
	}
	if got := reconcile.UntrustedOf(io.EOF); got != nil {
		t.Errorf("an end of file is about a certificate: %v", got)
	}
}
