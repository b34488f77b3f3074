// Package oci speaks to OCI registries: it lists and pulls Helm charts, and
// keeps the contents of bundles. It starts no process, reads no environment and
// no configuration of other programs, and keeps nothing between calls: tokens
// live as long as the call that asked for them.
//
// User name and password go to the registry and to the token service of its own domain,
// nowhere else, even if it redirects or points elsewhere. The size of what it sends is
// limited while it arrives, and the content is verified before it is returned.
//
// Errors are reconcile.Terminal (wait for another spec or Secret), reconcile.RequeueAfter (the
// registry may answer later), or those of a context that has ended. Their texts
// are stable from one try to the next and never hold a credential.
package oci

import (
	"net/http"
	"net/url"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// A Registry is a place in a registry, and how to talk to it.
type Registry struct {
	// Reference is host[:port]/path. A leading "oci://" and trailing slashes are
	// ignored. For a chart it may have a tag or digest (:1.0.0, @sha256:...).
	Reference          string
	Username, Password string // both or none
	// CABundle holds PEM certificates that are trusted besides the system's.
	CABundle           []byte
	InsecureSkipVerify bool // accept any certificate
	BasicHTTP          bool // no TLS
}

// Config configures the package. Zero fields have defaults.
type Config struct {
	// UserAgent is sent with every request; "fleet" where empty.
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses says which reserved addresses are dialled; none by default.
	Addresses address.Policy
	// Timeout is how long one call may take; 5 minutes where 0. An answer has to
	// begin within 30 seconds, or Timeout if that is shorter.
	Timeout time.Duration
	// Stall is how long each KiB of an answer may take; 30 seconds where 0.
	Stall time.Duration
}

// Client talks to registries. It may be used by several goroutines.
type Client struct{ cfg Config }

// New makes a Client.
func New(cfg Config) *Client {
	if cfg.UserAgent == "" {
		cfg.UserAgent = "fleet"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Minute
	}
	if cfg.Stall <= 0 {
		cfg.Stall = 30 * time.Second
	}
	return &Client{cfg: cfg}
}
