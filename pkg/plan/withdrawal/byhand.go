package withdrawal

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// RemovalOfRepo returns all that goes when a GitRepo is deleted: its Bundles with what they
// have deployed. Bundles of which nothing is removed, because everything is kept, are not
// among the items.
func RemovalOfRepo(repo *fleet.GitRepo, bundles []*fleet.Bundle, deployments []*fleet.BundleDeployment) Removal {
	r := Removal{Unit: "bundle", Total: len(bundles), Deleted: repo.UID}
	of := map[string][]*fleet.BundleDeployment{}
	for _, bd := range deployments {
		name := bd.Labels[fleet.LabelBundleName]
		of[name] = append(of[name], bd)
	}
	for _, b := range bundles {
		item, stays := Item{Name: b.Name, UID: b.UID, Protected: IsProtected(b)}, b.Spec.KeepResources && !IsProtected(b)
		for _, bd := range of[b.Name] {
			item.DataObjects = append(item.DataObjects, DataObjects(clusterOf(bd), bd)...)
			stays = stays && bd.Spec.Options.KeepResources
		}
		if !stays {
			r.Items = append(r.Items, item)
		}
	}
	return r
}

// RemovalOfBundle returns all that goes when a Bundle is deleted, or its HelmOp: its
// deployments, but those that keep everything. deleted is the Bundle or the HelmOp.
func RemovalOfBundle(deleted metav1.Object, deployments []*fleet.BundleDeployment) Removal {
	r := Removal{Unit: "deployment", Total: len(deployments), Deleted: deleted.GetUID()}
	for _, bd := range deployments {
		if !bd.Spec.Options.KeepResources {
			cluster := clusterOf(bd)
			r.Items = append(r.Items, Item{Name: cluster, UID: bd.UID, DataObjects: DataObjects(cluster, bd)})
		}
	}
	return r
}

// clusterOf is "<namespace>/<name>" of the Cluster of a deployment.
func clusterOf(bd *fleet.BundleDeployment) string {
	return bd.Labels[fleet.LabelClusterNamespace] + "/" + bd.Labels[fleet.LabelCluster]
}

// Clusters returns the Clusters of deployments as "<namespace>/<name>", sorted, each once.
func Clusters(deployments []*fleet.BundleDeployment) []string {
	var out []string
	for _, bd := range deployments {
		out = append(out, clusterOf(bd))
	}
	slices.SortFunc(out, strings.Compare)
	return slices.Compact(out)
}

// Announce is Judge for a removal that has not begun: the hash, the summary and the
// list are there also where no approval is needed.
func Announce(r Removal) Verdict {
	v := DecideRemoval(r)
	if v.Hash == "" {
		v = Verdict{Hash: Hash(r), Summary: r.summary(false), List: r.list()}
	}
	return v
}
