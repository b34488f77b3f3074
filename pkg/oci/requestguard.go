package oci

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// maxRedirects is how many redirects one request may follow.
const maxRedirects = 5

// An origin is where a request goes to.
type origin struct {
	scheme, host string // host[:port]
}

// requestGuard is the one place through which all requests leave. It withholds credentials
// that would go to another place than the registry, whichever code put them into the
// request, and uploads that would.
type requestGuard struct {
	next      http.RoundTripper
	registry  origin
	addresses address.Policy
	anonymous bool
	stall     time.Duration
	realms    []origin // token services that the registry has named in this call
}

// RoundTrip sends a request if it may go where it goes to.
func (g *requestGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.checkRequest(req); err != nil {
		return nil, err
	}
	if err := g.addresses.CheckHost(req.URL.Hostname()); err != nil {
		return nil, err
	}
	res, err := g.send(req)
	if err != nil || res.StatusCode != http.StatusUnauthorized || !g.isRegistry(req.URL) {
		return res, err
	}
	if err := g.noteChallenge(res.Header.Get("WWW-Authenticate")); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

func (g *requestGuard) checkRequest(req *http.Request) error {
	authorization := req.Header.Get("Authorization")
	switch {
	case g.isRegistry(req.URL):
		return nil
	case req.Response != nil && authorization == "": // a redirect; checkRedirect has seen it
		return nil
	case req.Response == nil && req.Method == http.MethodGet && g.isRealm(req.URL):
		if authorization == "" || strings.HasPrefix(authorization, "Basic ") && g.trusted(req.URL) {
			return nil
		}
	case authorization == "":
		return permanentf(ReasonRedirected, "registry %q points to %q; nothing is asked or sent there", g.registry.host, req.URL.Host)
	}
	return permanentf(ReasonRedirected, "registry %q points to %q; credentials are not sent there", g.registry.host, req.URL.Host)
}

// checkRedirect lets reading follow, without credentials, to where a registry
// keeps its blobs.
func (g *requestGuard) checkRedirect(req *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case first.Method != http.MethodGet && first.Method != http.MethodHead:
		return permanentf(ReasonRedirected, "registry %q redirects what is written to it to %q", g.registry.host, req.URL.Host)
	case len(via) > maxRedirects:
		return permanentf(ReasonRedirected, "registry %q redirects more than %d times", g.registry.host, maxRedirects)
	case last.URL.Scheme == "https" && req.URL.Scheme != "https", req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return permanentf(ReasonRedirected, "registry %q redirects from https to %s", g.registry.host, req.URL.Scheme)
	}
	return nil
}

var realm = regexp.MustCompile(`(?i)\brealm\s*=\s*(?:"([^"]*)"|([^\s,"]+))`)

// noteChallenge remembers the token service that a registry names, and refuses one that
// must not see the credentials.
func (g *requestGuard) noteChallenge(challenge string) error {
	if !strings.HasPrefix(strings.ToLower(challenge), "bearer") {
		return nil
	}
	m := realm.FindStringSubmatch(challenge)
	if m == nil {
		return nil
	}
	u, err := url.Parse(m[1] + m[2])
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return permanentf(ReasonNotRegistry, "registry %q names a token service that has no URL", g.registry.host)
	}
	switch {
	case g.registry.scheme == "https" && u.Scheme != "https":
		return permanentf(ReasonRedirected, "registry %q names a token service without TLS, %q; it is not asked", g.registry.host, u.Host)
	case !g.anonymous && !g.trusted(u):
		return permanentf(ReasonRedirected, "registry %q asks to show the credentials to %q, which is not of its domain; they are not sent there", g.registry.host, u.Host)
	}
	g.realms = append(g.realms, originOf(u))
	return nil
}

// isRegistry reports whether a URL is the registry's.
func (g *requestGuard) isRegistry(u *url.URL) bool { return sameOrigin(originOf(u), g.registry) }

// isRealm reports whether a URL is that of a token service.
func (g *requestGuard) isRealm(u *url.URL) bool {
	if u == nil {
		return false
	}
	for _, r := range g.realms {
		if sameOrigin(r, originOf(u)) {
			return true
		}
	}
	return false
}

// trusted reports whether a token service may see the credentials: it is the
// registry itself, or stands at the default port of https in the registry's own
// domain. Docker Hub (auth.docker.io for registry-1.docker.io) and GitLab
// (gitlab.example.com for registry.example.com, or another port of it) are so.
func (g *requestGuard) trusted(u *url.URL) bool {
	if g.isRegistry(u) {
		return true
	}
	if u.Scheme != "https" || u.Port() != "" && u.Port() != "443" {
		return false
	}
	here, there := hostname(g.registry.host), strings.ToLower(u.Hostname())
	if here == there {
		return true
	}
	if net.ParseIP(here) != nil || net.ParseIP(there) != nil {
		return false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(here)
	if err != nil {
		return false
	}
	other, err := publicsuffix.EffectiveTLDPlusOne(there)
	return err == nil && domain == other
}

func originOf(u *url.URL) origin { return origin{u.Scheme, u.Host} }

// sameOrigin reports whether two origins are equal. The default port of a scheme may be
// left out in either.
func sameOrigin(a, b origin) bool {
	return a.scheme == b.scheme && a.canonical() == b.canonical()
}

func (o origin) canonical() string {
	host := strings.ToLower(o.host)
	switch o.scheme {
	case "https":
		return strings.TrimSuffix(host, ":443")
	case "http":
		return strings.TrimSuffix(host, ":80")
	}
	return host
}

// hostname is a host without its port.
func hostname(host string) string {
	return strings.ToLower((&url.URL{Host: host}).Hostname())
}
