package helm

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Defaults of Helm's options.
const (
	defaultHistory = 2               // revisions kept
	defaultTimeout = 5 * time.Minute // of one hook, and of an atomic action without a timeout
)

// A Deployment is what Install and Upgrade bring about.
type Deployment struct {
	// ID is the release; see IDOf.
	ID release.ID
	// Content are the files of the bundle.
	Content content.Manifest
	// Options say how to deploy them; the Helm values are merged in.
	Options fleet.BundleDeploymentOptions
	// Memory is written into the release. Memory.Owner.BundleID is the name of
	// the BundleDeployment; the agent's namespace is the client's.
	Memory release.Memory
	// Adopt tells whether objects of another release may be taken over without
	// takeOwnership. Nil: of none.
	Adopt func(release.ID) bool
}

// IDOf is the release that a bundle deployment of this name makes with these
// options.
func IDOf(bundleID string, o fleet.BundleDeploymentOptions) release.ID {
	id := release.ID{Namespace: o.TargetNamespace, Name: naming.ReleaseName(bundleID)}
	if id.Namespace == "" {
		id.Namespace = orDefault(o.DefaultNamespace)
	}
	if o.Helm != nil && o.Helm.ReleaseName != "" {
		id.Name = o.Helm.ReleaseName
	}
	return id
}

// helm are the Helm options, never nil.
func (d Deployment) helm() fleet.HelmOptions {
	if d.Options.Helm == nil {
		return fleet.HelmOptions{}
	}
	return *d.Options.Helm
}

// history is how many revisions are kept.
func (d Deployment) history() int {
	if n := d.helm().MaxHistory; n > 0 {
		return n
	}
	return defaultHistory
}

// timeout is how long Helm waits, and whether it waits for objects at all.
func (d Deployment) timeout() (limit time.Duration, wait bool) {
	o := d.helm()
	if o.TimeoutSeconds > 0 {
		return time.Duration(o.TimeoutSeconds) * time.Second, true
	}
	return defaultTimeout, o.Atomic
}
