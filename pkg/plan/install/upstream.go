package install

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// A UpstreamFlags is how the user who runs a command reaches the manager's API server, and what the
// user has set for agents instead.
type UpstreamFlags struct {
	URL      string // of the kubeconfig
	CA       []byte // PEM of the kubeconfig; nil: it has none
	Insecure bool   // the kubeconfig skips the check of certificates

	ServerURL string // --server-url; empty: URL
	CAFile    []byte // content of --ca-file; nil: none was named
	NoCA      bool   // --no-ca
}

// An Upstream is where agents find the manager's API server.
type Upstream struct {
	URL string
	CA  []byte // PEM; nil: the system's authorities
}

// Upstream decides which address and authority agents get. It refuses an address that leads
// back to the machine it is used on, unless the user asked for it. It also refuses a
// kubeconfig that skips the check of certificates, because an agent never does.
func (uf UpstreamFlags) Upstream() (Upstream, error) {
	address, err := uf.address()
	if err != nil {
		return Upstream{}, err
	}
	out := Upstream{URL: address, CA: uf.CA}
	switch {
	case uf.NoCA && uf.CAFile != nil:
		return Upstream{}, errors.New("--no-ca goes without --ca-file")
	case uf.NoCA:
		out.CA = nil
	case uf.CAFile != nil:
		if err := checkAuthorities(uf.CAFile); err != nil {
			return Upstream{}, fmt.Errorf("--ca-file: %w", err)
		}
		out.CA = uf.CAFile
	case uf.Insecure:
		return Upstream{}, errors.New("the kubeconfig skips the check of the server's certificate, which an agent never does: " +
			"name its certificate authority with --ca-file FILE, or use --no-ca if every system trusts it")
	}
	return out, nil
}

func (uf UpstreamFlags) address() (string, error) {
	if uf.ServerURL != "" {
		if _, err := parseURL(uf.ServerURL); err != nil {
			return "", fmt.Errorf("--server-url %q: %w", uf.ServerURL, err)
		}
		return strings.TrimSuffix(uf.ServerURL, "/"), nil
	}
	u, err := parseURL(uf.URL)
	if err != nil {
		return "", fmt.Errorf("address %q of the kubeconfig: %w; say with --server-url where agents find the API server", uf.URL, err)
	}
	if loopback(u.Hostname()) {
		return "", fmt.Errorf("address %s of the kubeconfig leads nowhere from another machine: "+
			"say with --server-url where agents find the API server", uf.URL)
	}
	return strings.TrimSuffix(uf.URL, "/"), nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "https":
		return nil, errors.New("want https://HOST[:PORT]")
	case u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want https://HOST[:PORT] and nothing else")
	}
	return u, nil
}

// loopback reports whether a host means the machine on which it is used.
func loopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

// rancherProxy is how the path of a cluster begins behind Rancher.
const rancherProxy = "/k8s/clusters/"

// Warning returns a warning about an address that looks right and often is not; empty where
// there is none.
func (u Upstream) Warning() string {
	parsed, err := url.Parse(u.URL)
	switch {
	case err != nil:
		return ""
	case strings.HasPrefix(parsed.Path, rancherProxy):
		return u.URL + " is Rancher's proxy, which by default takes no registration tokens: name the API server itself with --server-url"
	case strings.HasSuffix(parsed.Hostname(), ".svc") || strings.HasSuffix(parsed.Hostname(), ".cluster.local"):
		return u.URL + " is known inside that cluster only: name an address from outside with --server-url"
	}
	return ""
}

// checkAuthorities refuses what holds no certificate.
func checkAuthorities(data []byte) error {
	found := false
	for rest := data; ; {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("it holds a %s: want certificates in PEM and nothing else", strings.ToLower(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errors.New("a certificate in it cannot be read")
		}
		found = true
	}
	if !found {
		return errors.New("it holds no certificate in PEM")
	}
	return nil
}
