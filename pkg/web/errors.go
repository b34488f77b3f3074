package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/proxy"
)

// Reasons of errors. Unreachable is reconcile.RequeueAfter, all others are reconcile.Terminal;
// reconcile.ReasonLocal is about this process.
const (
	ReasonInvalidURL            = "InvalidURL"
	ReasonInvalidCredentials    = "InvalidCredentials"
	ReasonAuthenticationRefused = "AuthenticationRefused"
	ReasonNotFound              = "NotFound"
	ReasonRefused               = "Refused"
	ReasonTooLarge              = "TooLarge"
	ReasonCertificateRefused    = "CertificateRefused"
	ReasonRedirected            = "Redirected"
	ReasonAddressRefused        = address.ReasonRefused
	ReasonChecksumMismatch      = "ChecksumMismatch"
	ReasonUnreachable           = "Unreachable"
)

// Advice for users of a GitRepo, who have a Secret for charts. Commands replace it by their flags.
const (
	AdviceAuthority   = "the key cacerts of the Secret can name its authority"
	AdviceCredentials = "is there a Secret (helmSecretName), and does helmRepoURLRegex match?"
)

// How long to wait for a server that does not answer: what it says itself, but
// within these bounds.
const (
	shortestWait = 5 * time.Second
	longestWait  = time.Hour
)

var errStalled = errors.New("nothing came for too long")

func permanentf(reason, format string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(format, args...))
}

func unreachablef(after time.Duration, format string, args ...any) error {
	return reconcile.RequeueError(ReasonUnreachable, min(max(after, shortestWait), longestWait), fmt.Errorf(format, args...))
}

// refusal judges an answer that is no file.
func (d *download) refusal(res *http.Response) error {
	at, status := withoutQuery(d.final), res.StatusCode
	moved := ""
	if !sameOrigin(d.url, d.final) {
		moved = fmt.Sprintf(" (redirected from %s)", withoutQuery(d.url))
	}
	secret := d.Credentials.Username != "" || d.Credentials.Password != ""
	limited := res.Header.Get("Retry-After") != "" || res.Header.Get("X-RateLimit-Remaining") == "0"
	switch {
	case status == http.StatusForbidden && limited, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return unreachablef(retryAfter(res.Header), "%s%s answers no more requests for now (%d)", at, moved, status)
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && secret && !d.reported:
		return permanentf(ReasonAuthenticationRefused, "%s%s asks for credentials (%d); they are not sent to another host, port or scheme: use the new address", at, moved, status)
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && !secret:
		return permanentf(ReasonAuthenticationRefused, "%s%s asks for credentials (%d), and none are sent: %s", at, moved, status, AdviceCredentials)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return permanentf(ReasonAuthenticationRefused, "%s refuses the credentials (%d)", at, status)
	case (status == http.StatusNotFound || status == http.StatusGone) && !d.reported:
		return permanentf(ReasonNotFound, "%s%s does not exist (%d), or only for those who have credentials", at, moved, status)
	case status == http.StatusNotFound || status == http.StatusGone:
		return permanentf(ReasonNotFound, "%s%s does not exist (%d)", at, moved, status)
	case status >= 300 && status < 400:
		return permanentf(ReasonRedirected, "%s redirects without saying where to (%d)", at, status)
	case status >= 500:
		return unreachablef(retryAfter(res.Header), "%s%s cannot be had: the server answers %d %s", at, moved, status, http.StatusText(status))
	case status == http.StatusProxyAuthRequired && d.proxyName() != "":
		return proxyRefusal(d.proxyName(), d.final, status)
	}
	return permanentf(ReasonRefused, "%s%s cannot be had: the server answers %d %s", at, moved, status, http.StatusText(status))
}

// proxyRefusal judges the answer of a proxy that does not connect. proxy is its
// host and port.
func proxyRefusal(proxy string, to *url.URL, status int) error {
	if status == http.StatusProxyAuthRequired {
		return permanentf(ReasonAuthenticationRefused, "proxy %q asks for credentials (%d), or refuses those in its URL; the URL of the proxy holds them", proxy, status)
	}
	return unreachablef(0, "%s cannot be had: proxy %q does not connect to it (%d %s)", withoutQuery(to), proxy, status, http.StatusText(status))
}

// proxyName returns host and port of the proxy for the request, without user
// name and password, or "" if there is none.
func (d *download) proxyName() string {
	return proxy.Host(d.c.cfg.Proxy, d.final)
}

// retryAfter is what the header of that name says, in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 0), int(longestWait/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return time.Until(at)
	}
	return 0
}

// explain turns what a connection reported into an error of this package: a
// deliberate kind, and a text that is the same for the same fault (no local
// ports) and holds no credential.
func (d *download) explain(outer, inner context.Context, err error) error {
	var permanent *reconcile.Terminal
	var wait *reconcile.RequeueAfter
	var own *errInto
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &permanent):
		return permanent
	case errors.As(err, &wait):
		return wait
	case errors.Is(outer.Err(), context.Canceled):
		return outer.Err()
	}
	if local := disk.Fault(err); local != nil {
		return local
	}
	if why := reconcile.UntrustedOf(err); why != nil {
		return permanentf(ReasonCertificateRefused, "the certificate of %q is not trusted: %s; %s", d.final.Host, why.Text, cmp.Or(why.Advice, AdviceAuthority))
	}
	return unreachablef(0, "%s cannot be had: %s", withoutQuery(d.final), d.networkFault(inner, err))
}

// networkFault is the stable core of a network error.
func (d *download) networkFault(ctx context.Context, err error) string {
	var (
		errno  syscall.Errno
		dns    *net.DNSError
		record tls.RecordHeaderError
		alert  tls.AlertError
		netErr net.Error
		broken damagedResponse
		op     *net.OpError
	)
	proxy, unknown := "", "the answer could not be read"
	switch {
	case !errors.As(err, &op):
	case op.Op == "proxyconnect":
		proxy = fmt.Sprintf("proxy %q cannot be reached: ", d.proxyName())
	case op.Op == "socks connect":
		proxy, unknown = fmt.Sprintf("SOCKS proxy %q does not connect: ", d.proxyName()), op.Err.Error()
	}
	switch {
	case errors.Is(context.Cause(ctx), errStalled) && d.slow:
		return fmt.Sprintf("fewer than %d bytes came in %s", stallBytes, d.c.cfg.Limits.Stall)
	case errors.Is(context.Cause(ctx), errStalled):
		return "nothing came for " + d.c.cfg.Limits.Stall.String()
	case ctx.Err() != nil:
		return "it was not complete after " + d.c.cfg.Timeout.String()
	case errors.As(err, &broken):
		return string(broken)
	case errors.As(err, &dns):
		return proxy + "no address is known for this name"
	case errors.As(err, &errno):
		return proxy + errno.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return proxy + "it does not speak TLS on this port"
	case errors.As(err, &alert):
		return proxy + alert.Error()
	case errors.As(err, &netErr) && netErr.Timeout():
		return proxy + "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return proxy + "the connection was closed early"
	case strings.Contains(err.Error(), "server response headers exceeded"), strings.Contains(err.Error(), "response header list larger"):
		return "its headers are larger than " + strconv.FormatInt(d.c.cfg.Limits.Headers, 10) + " bytes"
	}
	return proxy + unknown
}
