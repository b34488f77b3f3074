package bundle

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/display"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// targeting finds the Bundles that a change of a cluster, a group, a namespace or a
// mapping affects.
type targeting struct {
	*base
	pairs    *pairState
	displays *display.Controller
}

// clusterChanged enqueues the Bundles that a change of a cluster affects.
func (t *targeting) clusterChanged(c *fleet.Cluster, change fleetstate.ClusterChange) {
	key := kube.KeyOf(c)
	if change.Is == nil {
		return // nothing new
	}
	if change.Life {
		t.clusterOnline(c, change.Away)
	}
	if change.Life || change.Was == nil {
		t.heartbeatQueue.Add(key)
	}
	if change.Targeting {
		t.enqueueSchedules(key.Namespace)
		t.enqueueAffected(key.Namespace, change)
		if change.Was == nil || change.Was.Protocol != change.Is.Protocol || change.Was.Unseen != change.Is.Unseen {
			t.checkDisplays(key)
		}
	}
}

// enqueueAffected enqueues the Bundles that a change of a cluster affects.
func (t *targeting) enqueueAffected(namespace string, change fleetstate.ClusterChange) {
	for _, key := range t.bundlesFor(namespace) {
		if t.changesDecision(key, change) {
			t.bundleQueue.Add(key)
		}
	}
}

// changesDecision reports whether the decision about a Bundle differs before and after
// a change of a cluster. It is false for a Bundle that is not planned yet: it is
// enqueued.
func (t *targeting) changesDecision(key kube.Key, change fleetstate.ClusterChange) bool {
	t.pairs.mu.Lock()
	entry := t.pairs.compiled[key]
	t.pairs.mu.Unlock()
	was, is := change.Was, change.Is
	if entry != nil && was != nil && (was.Protocol != is.Protocol || was.Unseen != is.Unseen) && fleetstate.NamedBy(entry.compiled.Bundle()) != "" {
		return true // it may be able to read now what it was not, and the other way round
	}
	if entry == nil || was == nil || was.Deleting != is.Deleting || was.Emptied != is.Emptied || was.Other != is.Other ||
		was.NoPlace != is.NoPlace || was.Place.Namespace != is.Place.Namespace {
		return true
	}
	before, after := entry.compiled.Pick(&was.Place.Cluster), entry.compiled.Pick(&is.Place.Cluster)
	if !before.SameOptions(after) {
		return true
	}
	if !after.Deploy {
		// A message may say so.
		return t.table.HasNoClusters(key) || t.table.HasDeployment(key, is.Key) &&
			entry.compiled.Match(&was.Place.Cluster).Reason != entry.compiled.Match(&is.Place.Cluster).Reason
	}
	if was.Place.Paused != is.Place.Paused || was.Place.Windows != is.Place.Windows || was.Place.Closed != is.Place.Closed ||
		was.Place.OffSchedule != is.Place.OffSchedule ||
		rollout.ChangesPartition(entry.compiled.Bundle().Spec.RolloutStrategy, &was.Place.Cluster, &is.Place.Cluster) {
		return true
	}
	x, errX := entry.compiled.Inputs(before, was.Place)
	y, errY := entry.compiled.Inputs(after, is.Place)
	return errX != nil || errY != nil || x != y
}

// observeCluster stores a Cluster as the API server returned it, before the watch
// reports it.
func (t *targeting) observeCluster(c *fleet.Cluster) {
	t.stripCluster(c)
	delta, change := t.table.SetCluster(c)
	t.enqueue(delta)
	t.clusterChanged(c, change)
}

// reporterOf returns the agent that reports a deployment; false if another manager
// reconciles the deployment, or its Cluster does not exist.
func (t *targeting) reporterOf(bd *fleet.BundleDeployment) (summary.Reporter, bool) {
	key := kube.KeyOf(bd)
	_, cluster, ok := t.table.PairOf(key)
	if !ok || t.ownedByOther(key) {
		return summary.Reporter{}, false
	}
	agent, known := t.table.AgentOf(cluster)
	return summary.Reporter{Protocol: agent.Protocol, Life: agent.Life}, known
}

// checkDisplays enqueues the deployments of a cluster whose agent has changed to, or
// from, one of rancher/fleet.
func (t *targeting) checkDisplays(cluster kube.Key) {
	for _, bd := range t.table.DeploymentsOn(cluster) {
		t.displays.Check(bd)
	}
}

// followNamespaces watches the namespaces of clusters. It is used where another process
// marks the Clusters.
func (t *targeting) followNamespaces(c *kube.Client) {
	if !t.cfg.Scope.Limited() {
		return
	}
	t.table.FollowNamespaces()
	t.cache.owned = kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
		kube.Watch{Labels: fleet.LabelManaged + "=true"}, stripOwned)
	t.cache.owned.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		owner := ""
		if changed != nil && changed.DeletionTimestamp == nil {
			owner = registration.NamespaceOwner(changed)
		}
		for _, change := range t.table.SetOwner(orOld(old, changed).Name, owner) {
			t.enqueueAffected(change.Is.Key.Namespace, change)
		}
	})
}

// stripOwned keeps the annotation of a namespace that names its Cluster.
func stripOwned(m *metav1.PartialObjectMetadata) {
	keepAnnotations(m, fleet.AnnotationCluster, fleet.AnnotationClusterNamespace)
	m.Labels = nil
}
