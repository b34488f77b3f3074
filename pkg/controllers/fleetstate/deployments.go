package fleetstate

import (
	"reflect"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// BundleOf returns the Bundle that a deployment belongs to, by its labels. It returns
// false for an object that Fleet did not make.
func BundleOf(bd *fleet.BundleDeployment) (kube.Key, bool) {
	k := kube.Key{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
	return k, k.Namespace != "" && k.Name != ""
}

// ClusterOf returns the Cluster that a deployment is for, by its labels.
func ClusterOf(bd *fleet.BundleDeployment) (kube.Key, bool) {
	k := kube.Key{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
	return k, k.Namespace != "" && k.Name != ""
}

// SetDeployment stores a deployment, from a watch or from the answer to a write. It
// ignores a deployment that is older than the stored one.
func (t deploymentTable) SetDeployment(bd *fleet.BundleDeployment) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	if t.departed.known[bd.UID] {
		return changed
	}
	key := kube.KeyOf(bd)
	bundle, ok := BundleOf(bd)
	cluster, ok2 := ClusterOf(bd)
	if !ok || !ok2 {
		c := t.deployments[key]
		if c == nil {
			return changed // not ours
		}
		bundle, cluster = c.bundle, c.cluster // its labels were removed
	}
	if c := t.deployments[key]; c != nil {
		if c.bd.UID == bd.UID && !newer(bd.ResourceVersion, c.bd.ResourceVersion) {
			if bd.ResourceVersion == c.bd.ResourceVersion {
				c.bd = bd // the cache's, which is kept anyway
			}
			return changed
		}
		if c.bundle != bundle || c.cluster != cluster {
			t.clearDeployment(c, key, &changed)
		}
	}
	c := t.placementOf(bundle, cluster)
	leaves := c.want == nil && (c.bd == nil || orderOf(c.bd) != orderOf(bd))
	t.countContents(c.bd, bd, &changed)
	t.countDeployment(bundle.Namespace, c.bd, bd)
	old := c.bd
	c.bd = bd
	t.onNewVersion(c, old, &changed)
	t.deployments[key] = c
	t.refreshView(c, &changed)
	if leaves {
		t.markChanged(c, &changed)
	}
	row := t.bundleRowOf(bundle)
	row.changed++
	if row.plan != nil && row.plan.Waiting {
		changed.Plan = append(changed.Plan, bundle)
	}
	return changed
}

// RemoveDeployment removes a deployment that is gone.
func (t deploymentTable) RemoveDeployment(bd *fleet.BundleDeployment) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	t.departed.add(bd.UID)
	key := kube.KeyOf(bd)
	if c := t.deployments[key]; c != nil && c.bd.UID == bd.UID {
		t.clearDeployment(c, key, &changed)
		changed.Plan = append(changed.Plan, c.bundle)
	}
	return changed
}

// clearDeployment removes the deployment of a placement.
func (t deploymentTable) clearDeployment(c *placement, key kube.Key, changed *Changes) {
	delete(t.deployments, key)
	t.countContents(c.bd, nil, changed)
	t.countDeployment(c.bundle.Namespace, c.bd, nil)
	c.bd = nil
	t.refreshView(c, changed)
	if c.want == nil {
		t.markChanged(c, changed)
	}
	t.dropPlacement(c)
}

// orderOf returns the order to withdraw a deployment; empty if there is none.
func orderOf(bd *fleet.BundleDeployment) string { return bd.Annotations[fleet.AnnotationWithdrawn] }

// PairOf returns the Bundle and the Cluster of a known deployment.
func (t deploymentTable) PairOf(key kube.Key) (bundle, cluster kube.Key, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.deployments[key]; c != nil {
		return c.bundle, c.cluster, true
	}
	return kube.Key{}, kube.Key{}, false
}

// Deployment returns a deployment by its own key.
func (t deploymentTable) Deployment(key kube.Key) (*fleet.BundleDeployment, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.deployments[key]; c != nil {
		return c.bd, true
	}
	return nil, false
}

// HasDeployment reports whether a cluster has a deployment of a Bundle.
func (t deploymentTable) HasDeployment(bundle, cluster kube.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[bundle]
	return row != nil && row.cells[cluster] != nil && row.cells[cluster].bd != nil
}

// Deployments returns the existing deployments of a Bundle, by Cluster, and a number
// that changes with them.
func (t deploymentTable) Deployments(bundle kube.Key) (map[kube.Key]*fleet.BundleDeployment, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[kube.Key]*fleet.BundleDeployment{}
	row := t.bundles[bundle]
	if row == nil {
		return out, 0
	}
	for key, c := range row.cells {
		if c.bd != nil {
			out[key] = c.bd
		}
	}
	return out, row.changed
}

// All returns all deployments, in no order.
func (t deploymentTable) All() []*fleet.BundleDeployment {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*fleet.BundleDeployment, 0, len(t.deployments))
	for _, c := range t.deployments {
		out = append(out, c.bd)
	}
	return out
}

// Views returns all desired deployments as summaries see them, in no order.
func (t deploymentTable) Views() []summary.Deployment {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []summary.Deployment
	for _, row := range t.bundles {
		for _, c := range row.cells {
			if c.want != nil {
				out = append(out, c.view)
			}
		}
	}
	return out
}

// sameView reports whether two views of a placement are equal for every reader.
func sameView(a, b *summary.Deployment) bool {
	return a.Bundle == b.Bundle && a.Cluster == b.Cluster && a.Repo == b.Repo && a.HelmOp == b.HelmOp &&
		a.UID == b.UID && a.State == b.State && a.Message == b.Message && a.Incomplete == b.Incomplete &&
		a.Counts == b.Counts && slices.EqualFunc(a.Modified, b.Modified, sameModified) &&
		slices.EqualFunc(a.NonReady, b.NonReady, sameUnready) && sameList(a.Resources, b.Resources)
}

func sameModified(a, b fleet.ModifiedStatus) bool { return reflect.DeepEqual(a, b) }

func sameUnready(a, b fleet.NonReadyStatus) bool {
	return a.UID == b.UID && a.Kind == b.Kind && a.APIVersion == b.APIVersion && a.Namespace == b.Namespace &&
		a.Name == b.Name && a.Summary.State == b.Summary.State && a.Summary.Error == b.Summary.Error &&
		a.Summary.Transitioning == b.Summary.Transitioning && slices.Equal(a.Summary.Message, b.Summary.Message)
}

// sameList compares two lists of objects. They are usually the same slice, see interner
// in package bundle.
func sameList(a, b []fleet.BundleDeploymentResource) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)
}

// DeploymentsOn returns the known deployments of a cluster.
func (t deploymentTable) DeploymentsOn(cluster kube.Key) []*fleet.BundleDeployment {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*fleet.BundleDeployment
	for c := range t.onCluster[cluster] {
		if c.bd != nil {
			out = append(out, c.bd)
		}
	}
	return out
}
