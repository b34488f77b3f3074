// Package imagescan decides which tag of an image an ImageScan stands for, when the
// registry is asked again, and what the status of the ImageScan is.
package imagescan

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/distribution/reference"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of errors.
const (
	ReasonInvalidImage       = "InvalidImage"       // the name of the image, or the policy
	ReasonInvalidCredentials = "InvalidCredentials" // the Secret
	ReasonNoTag              = "NoTag"              // no tag satisfies the policy
)

// dockerHub is the registry of an image without a registry, as rancher/fleet writes it.
// Other names of it are those of Docker's own tools.
const dockerHub = "index.docker.io"

var dockerHubNames = []string{"docker.io", "registry-1.docker.io", "registry.hub.docker.com", dockerHub}

// An Image is a repository of images in a registry.
type Image struct {
	Registry string // host[:port]
	Path     string
}

// ParseImage reads the name of an image with Docker's defaults: nginx is
// index.docker.io/library/nginx. It ignores a tag and a digest. Errors are Terminal,
// InvalidImage.
func ParseImage(name string) (Image, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return Image{}, reconcile.TerminalError(ReasonInvalidImage, fmt.Errorf("image %q: %w", name, err))
	}
	return Image{Registry: hubName(reference.Domain(named)), Path: reference.Path(named)}, nil
}

// Name returns registry and path: the canonical name of the image.
func (i Image) Name() string { return i.Registry + "/" + i.Path }

// PlainHTTP reports whether the registry is on this machine: then it is asked without
// TLS, as Docker's tools do.
func (i Image) PlainHTTP() bool {
	host := (&url.URL{Host: i.Registry}).Hostname()
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hubName is a registry with one name for Docker Hub.
func hubName(registry string) string {
	if slices.Contains(dockerHubNames, registry) {
		return dockerHub
	}
	return registry
}
