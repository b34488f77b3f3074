package git

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of errors, one PascalCase word each; they become the reasons of
// conditions. Unreachable, which is about a whole host, RemoteFailing, which is about one
// repository on it, and BranchMoved, which a new commit on the new head ends, are
// reconcile.RequeueAfter, all others reconcile.Terminal.
// reconcile.ReasonLocal is about this process.
const (
	ReasonInvalidURL            = "InvalidURL"
	ReasonInvalidReference      = "InvalidReference"
	ReasonInvalidCredentials    = "InvalidCredentials"
	ReasonAuthenticationRefused = "AuthenticationRefused"
	ReasonRepositoryNotFound    = "RepositoryNotFound"
	ReasonEmptyRepository       = "EmptyRepository"
	ReasonBranchNotFound        = "BranchNotFound"
	ReasonRevisionNotFound      = "RevisionNotFound"
	ReasonCertificateRefused    = "CertificateRefused"
	ReasonHostKeyRefused        = "HostKeyRefused"
	ReasonRedirected            = "Redirected"
	ReasonNotGit                = "NotGit"
	ReasonTooLarge              = "TooLarge"
	ReasonInvalidSubmodule      = "InvalidSubmodule"
	ReasonPushRefused           = "PushRefused"
	ReasonUnreachable           = "Unreachable"
	ReasonRemoteFailing         = "RemoteFailing"
	ReasonBranchMoved           = "BranchMoved"
)

// retryAfter is the shortest time until a host that did not answer is asked
// again.
const retryAfter = 5 * time.Second

func unreachablef(format string, args ...any) error {
	return reconcile.RequeueError(ReasonUnreachable, retryAfter, fmt.Errorf(format, args...))
}

func failingf(format string, args ...any) error {
	return reconcile.RequeueError(ReasonRemoteFailing, retryAfter, fmt.Errorf(format, args...))
}

// HostAway reports whether an error is about the host and thereby about all its
// repositories: it cannot be connected to, or wants to be left alone.
func HostAway(err error) bool { return reconcile.ReasonOf(err) == ReasonUnreachable }

// An answeredError happened after the connection stood: it is the fault of one
// repository, not of the host.
type answeredError struct{ error }

func (e answeredError) Unwrap() error { return e.error }

func answered(err error) error {
	if err == nil {
		return nil
	}
	return answeredError{err}
}

// explain turns what a connection reported into an error of this package: a
// deliberate kind, and a text that is the same for the same fault (no local
// ports, no addresses) and holds no credential.
func (e *sourceEntry) explain(ctx context.Context, err error) error {
	if errors.Is(err, errCache) || disk.Fault(err) != nil {
		return cacheFault(err)
	}
	var permanent *reconcile.Terminal
	var wait *reconcile.RequeueAfter
	switch { // what libraries have put around it is of no use to users
	case errors.As(err, &permanent):
		return permanent
	case errors.As(err, &wait):
		return wait
	}
	if fault := e.proxyFault(ctx, err); fault != nil && ctx.Err() == nil {
		return fault
	}
	host := e.ep.display()
	if why := reconcile.UntrustedOf(err); why != nil {
		return permanentf(ReasonCertificateRefused, "certificate of git host %q is not trusted: %w", host, why)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var after answeredError
	if errors.As(err, &after) {
		return failingf("git host %q cannot serve %q: %s", host, strings.Trim(e.ep.path, "/"), e.networkFault(ctx, err))
	}
	return unreachablef("git host %q cannot be reached: %s", host, e.networkFault(ctx, err))
}

// errCache marks faults of our own disk.
var errCache = errors.New("git cache on disk")

// cacheFault is a disk fault without the names of temporary files.
func cacheFault(err error) error {
	if local := disk.Fault(err); local != nil {
		return local
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("%w: %w", errCache, errno)
	}
	return errCache
}

// networkFault is the stable core of a network error.
func (e *sourceEntry) networkFault(ctx context.Context, err error) string {
	var (
		errno  syscall.Errno
		dns    *net.DNSError
		record tls.RecordHeaderError
		alert  tls.AlertError
		line   *pktline.ErrorLine
		netErr net.Error
	)
	switch {
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return reconcile.TextNoAddress
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return reconcile.TextNoTLS
	case errors.As(err, &alert):
		return alert.Error()
	case errors.As(err, &line):
		return "it says " + e.quote(line.Text)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed early"
	case errors.Is(err, errDamaged):
		return "what it sent is incomplete"
	}
	return "the answer could not be read"
}

// quote makes a remote's own words fit for a message: one line, short, without
// control characters and without our credentials.
func (e *sourceEntry) quote(text string) string {
	for _, secret := range e.src.Credentials.secrets(e.ep) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	runes := []rune(text)
	if len(runes) > 100 {
		runes = append(runes[:99], '…')
	}
	return fmt.Sprintf("%q", string(runes))
}
