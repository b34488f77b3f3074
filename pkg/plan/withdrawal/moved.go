package withdrawal

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A Place is the workspace and the Cluster of deployments, and the namespace that they are
// in.
type Place struct {
	Workspace, Cluster string
	Namespace          string // of its BundleDeployments
}

// Moved returns the withdrawn deployments of a cluster that has moved to another workspace:
// of those that it had in its old place, the ones that the new place neither has nor wants.
// They bear the names and the specification of the old ones, by which the agent knows its
// releases, and look as if the new workspace had had them: a Bundle of that name which
// comes there later takes them back. order makes the id of each order.
//
// Left out are the deployment of the agent itself, which is never uninstalled, and
// what was never deployed.
func Moved(old []*fleet.BundleDeployment, from, to Place, wanted func(name string) bool, order func() string) []*fleet.BundleDeployment {
	var out []*fleet.BundleDeployment
	for _, bd := range old {
		deployed := bd.Spec.DeploymentID != "" || bd.Status.AppliedDeploymentID != ""
		if !deployed || bd.Labels[fleet.LabelBundleName] != bd.Name || bd.Name == naming.AgentBundle(from.Cluster) || wanted(bd.Name) {
			continue
		}
		out = append(out, movedDeployment(bd, from, to, order()))
	}
	slices.SortFunc(out, func(a, b *fleet.BundleDeployment) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

func movedDeployment(bd *fleet.BundleDeployment, from, to Place, order string) *fleet.BundleDeployment {
	out := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: to.Namespace, Name: bd.Name, Labels: maps.Clone(bd.Labels),
			Annotations: map[string]string{fleet.AnnotationWithdrawn: order},
		},
		Spec: *bd.Spec.DeepCopy(),
	}
	l := out.Labels
	l[fleet.LabelCluster], l[fleet.LabelClusterNamespace], l[fleet.LabelBucket] = to.Cluster, to.Workspace, naming.Bucket(to.Namespace)
	if l[fleet.LabelBundleNamespace] == from.Workspace {
		owner := bd.Name
		for _, label := range []string{fleet.LabelHelmOpName, fleet.LabelRepoName} {
			if l[label] != "" {
				owner = l[label]
			}
		}
		l[fleet.LabelBundleNamespace], l[fleet.LabelOwnerBucket] = to.Workspace, naming.OwnerBucket(to.Workspace, owner)
	}
	// Nothing of it is deployed any more: what only deploying needs is not taken along.
	delete(l, fleet.LabelContentName)
	out.Spec.StagedDeploymentID, out.Spec.StagedOptions = "", fleet.BundleDeploymentOptions{}
	out.Spec.ValuesHash, out.Spec.OCIContents, out.Spec.HelmChartOptions = "", false, nil
	out.Spec.Paused, out.Spec.OffSchedule = false, false
	return out
}
