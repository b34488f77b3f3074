package fleetstate

import (
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// FollowNamespaces makes the table find the namespaces of Clusters that no manager of
// this project has marked; see registration.PlaceOf. It is called before anything is
// taken in.
func (t clusterTable) FollowNamespaces() {
	t.spaceOwners, t.expected = registration.Owners{}, map[string]kube.Key{}
}

// expect notes which namespace a Cluster is to have.
func (t *core) expect(key kube.Key) {
	if t.expected != nil {
		t.expected[naming.ClusterNamespace(key.Namespace, key.Name)] = key
	}
}

// SetOwner stores which Cluster a namespace names as its own, as "namespace/name";
// empty: none, or the namespace is gone.
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
			changes = t.replace(row, changes)
		}
	}
	return changes
}
