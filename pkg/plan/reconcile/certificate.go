package reconcile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// An Untrusted is why the certificate of a server is not trusted. The same fault always has
// the same text.
type Untrusted struct {
	Text string
	// Advice says what helps if no named authority signed the certificate; else it
	// is empty.
	Advice string
}

func (u *Untrusted) Error() string {
	if u.Advice == "" {
		return u.Text
	}
	return u.Text + "; " + u.Advice
}

// What helps against certificates that are of a known authority.
const (
	adviceName   = "use a name that the certificate is for, or give the server a certificate for this name"
	adviceEnded  = "the server needs a new certificate"
	adviceBefore = "check the clock here and that of the server"
)

// UntrustedOf returns why the certificate of a server is not trusted; nil where the error
// is about something else.
func UntrustedOf(err error) *Untrusted {
	var verification *tls.CertificateVerificationError
	if !errors.As(err, &verification) {
		return nil
	}
	u := &Untrusted{Text: strings.TrimPrefix(verification.Err.Error(), "x509: ")}
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(verification.Err, &name):
		u.Advice = adviceName
	case !errors.As(verification.Err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil:
	case strings.Contains(invalid.Detail, " is before "):
		u.Text, u.Advice = "certificate is not valid before "+invalid.Cert.NotBefore.UTC().Format(time.RFC3339), adviceBefore
	default:
		u.Text = "certificate has expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339)
		if !invalid.Cert.IsCA { // else it may be that of an authority that is named
			u.Advice = adviceEnded
		}
	}
	return u
}
