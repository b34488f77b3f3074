package git

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/fleetworkspace/fleet/pkg/proxy"
)

// A proxyRefusedError is the answer of an HTTP proxy that does not connect.
type proxyRefusedError int

func (e proxyRefusedError) Error() string {
	return fmt.Sprintf("it does not connect (%d %s)", int(e), http.StatusText(int(e)))
}

// proxyAnswer makes an error of a proxy's refusal, so that it is not taken for
// one of the git host.
func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return proxyRefusedError(answer.StatusCode)
}

// proxyFault returns what err says about the proxy, or nil if the fault is not
// the proxy's. Its text names the proxy without user name and password.
func (e *sourceEntry) proxyFault(ctx context.Context, err error) error {
	unreachable := unreachablef
	if after := (answeredError{}); errors.As(err, &after) { // not about the host
		unreachable = failingf
	}
	var refused proxyRefusedError
	if errors.As(err, &refused) {
		if refused == http.StatusProxyAuthRequired {
			return e.proxyCredentials()
		}
		return unreachable("git host %q cannot be reached: proxy %q: %w", e.ep.display(), e.proxyName(), refused)
	}
	var op *net.OpError
	switch {
	case !errors.As(err, &op):
		return nil
	case op.Op == "proxyconnect":
		return unreachable("git host %q cannot be reached: proxy %q cannot be reached: %s", e.ep.display(), e.proxyName(), e.networkFault(ctx, err))
	case op.Op == "socks connect":
		return unreachable("git host %q cannot be reached: SOCKS proxy %q does not connect: %s", e.ep.display(), e.proxyName(), e.quote(op.Err.Error()))
	}
	return nil
}

// proxyCredentials is the error for a proxy that answers 407.
func (e *sourceEntry) proxyCredentials() error {
	return permanentf(ReasonAuthenticationRefused, "proxy %q asks for credentials (407), or refuses those in its URL; the URL of the proxy holds them", e.proxyName())
}

// proxyName is host and port of the proxy for the source.
func (e *sourceEntry) proxyName() string {
	return proxy.Host(e.transport.Proxy, e.ep.baseURL())
}
