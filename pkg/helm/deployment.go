package helm

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
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
	// AdminNamespace says that an administrator has set Options.TargetNamespace, as
	// in GitRepo.spec.targetNamespace, and not the fleet.yaml of the bundle.
	AdminNamespace bool
	// Memory is written into the release. Memory.Owner.BundleID is the name of
	// the BundleDeployment; the agent's namespace is the client's.
	Memory release.Record
	// Claim says how another release relates to this deployment, without
	// takeOwnership; see release.Wanted. Nil: all are unrelated.
	Claim func(release.ID) (release.Claim, string)
	// Shared, where not nil, is called for each object that is not taken over because
	// another bundle of the repository has it. It may be called by several goroutines.
	Shared func(SharedObject)
	// Awaited, where not nil, reports whether another bundle of the repository waits
	// for an object of this release, by its Identity: it is left for that bundle when
	// this one does not want it any more.
	Awaited func(object string) bool
}

// A SharedObject is one that two releases want.
type SharedObject struct {
	Owner     release.ID // the one that has it
	Kind      schema.GroupVersionKind
	Namespace string // empty for an object without
	Name      string
}

// Identity identifies an object in its cluster, in any version.
func (o SharedObject) Identity() string { return Identity(o.Kind, o.Namespace, o.Name) }

// Identity identifies an object in its cluster, in any version. The namespace is empty
// for an object without.
func Identity(kind schema.GroupVersionKind, namespace, name string) string {
	return kind.GroupKind().String() + " " + namespace + "/" + name
}

// IDOf returns release.IDOf.
func IDOf(bundleID string, o fleet.BundleDeploymentOptions) release.ID {
	return release.IDOf(bundleID, o)
}

// checkID refuses a release that cannot be.
func checkID(id release.ID) error {
	switch {
	case chartutil.ValidateReleaseName(id.Name) != nil:
		return reconcile.TerminalError(release.ReasonBadName,
			fmt.Errorf("release name %q: want up to 53 lower case letters, digits, dots and dashes (helm.releaseName)", id.Name))
	case len(validation.IsDNS1123Label(id.Namespace)) > 0:
		return reconcile.TerminalError(release.ReasonBadName,
			fmt.Errorf("namespace %q: want up to 63 lower case letters, digits and dashes (namespace, defaultNamespace)", id.Namespace))
	}
	return nil
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
