package withdrawal

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A Replacement is a release that another one replaces: an agent that gets the new one
// installs it and then uninstalls the old one.
type Replacement struct{ From, To release.ID }

// String returns "release shop/web becomes default/web".
func (r Replacement) String() string { return ReplacementPrefix(r.From) + r.To.String() }

// ReplacementPrefix returns how the String of a Replacement of a release begins.
func ReplacementPrefix(from release.ID) string { return fmt.Sprintf("release %s becomes ", from) }

// UntilApproved follows the String of a Replacement that waits for a person.
const UntilApproved = " when that is within the deletion budget, or approved: until then the old one stays as it is"

// Replaces reports whether a deployment that gets the release to leaves the one
// that it has: the one that its agent has reported, or else the one that was
// ordered. A deployment that was ordered to leave, or was never ordered to be
// deployed, has none. releaseName is naming.ReleaseName of the deployment.
func Replaces(bd *fleet.BundleDeployment, releaseName string, to release.ID) (Replacement, bool) {
	if bd.Spec.DeploymentID == "" || bd.Annotations[fleet.AnnotationWithdrawn] != "" || bd.DeletionTimestamp != nil {
		return Replacement{}, false
	}
	ordered, from := release.IDNamed(releaseName, bd.Spec.Options), release.ParseID(bd.Status.Release)
	if from == (release.ID{}) {
		from = ordered
	}
	return Replacement{from, to}, to != ordered && to != from
}

// LosesObjects reports whether objects go with the release of a deployment: its agent has
// reported one, which was not applied with keepResources.
func LosesObjects(bd *fleet.BundleDeployment) bool {
	kept := bd.Spec.Options.KeepResources && bd.Spec.DeploymentID == bd.Status.AppliedDeploymentID
	return !kept && (bd.Status.AppliedDeploymentID != "" || bd.Status.Release != "")
}

// ReplacedObjects returns the objects that need an approval and go with a release, where LosesObjects reports true.
// Its namespace stays, whatever deleteNamespace says.
func ReplacedObjects(cluster string, bd *fleet.BundleDeployment) []DataObject {
	return withoutCRDs(reportedObjects(cluster, bd), bd)
}

// Part divides what one change would remove of a GitRepo: free may go on at once, and Judge
// decides rest as one list. Above the budget rest is all of it. Within the budget it is
// what removes precious objects too: Bundles that are removed go or stay together, and each
// Bundle whose releases are replaced alone.
func Part(r Removal) (free, rest Removal) {
	free, rest = r, r
	free.Items, rest.Items = nil, nil
	precious := false
	for _, item := range r.Items {
		precious = precious || len(item.Replaced) == 0 && (len(item.DataObjects) > 0 || item.Protected)
	}
	over := r.isOverBudget()
	for _, item := range r.Items {
		if held := over || len(item.DataObjects) > 0 || precious && len(item.Replaced) == 0; held && (!r.Budget.off || r.protected() > 0) {
			rest.Items = append(rest.Items, item)
		} else {
			free.Items = append(free.Items, item)
		}
	}
	return free, rest
}
