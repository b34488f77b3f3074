package fleetstate

import (
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// FollowNamespaces makes the table take the namespaces of Clusters from SetOwner, for
// Clusters that rancher/fleet manages; see registration.PlaceOf. The caller calls it
// before it stores any object.
func (t clusterTable) FollowNamespaces() {
	t.spaceOwners, t.expected = registration.Owners{}, map[string]kube.Key{}
}

// expectNamespace records which namespace a Cluster should have.
func (cr *core) expectNamespace(key kube.Key) {
	if cr.expected != nil {
		cr.expected[naming.ClusterNamespace(key.Namespace, key.Name)] = key
	}
}

// SetOwner stores the Cluster that a namespace names as its owner, as "namespace/name";
// empty if it names none, or does not exist.
func (t clusterTable) SetOwner(namespace, owner string) []ClusterChange {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.spaceOwners[namespace]
	if t.spaceOwners == nil || was == owner {
		return nil
	}
	if owner == "" {
		delete(t.spaceOwners, namespace)
	} else {
		t.spaceOwners[namespace] = owner
	}
	var changes []ClusterChange
	seen := map[kube.Key]bool{}
	for _, key := range []kube.Key{t.expected[namespace], kube.ParseKey(was), kube.ParseKey(owner)} {
		if row := t.clusters[key]; row != nil && !seen[key] {
			seen[key] = true
			changes = t.replaceCluster(row, changes)
		}
	}
	return changes
}
