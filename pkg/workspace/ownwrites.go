package workspace

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ownWrites records the last write of each object: a cache may report it only after the
// next reconcile, which would write the same again.
type ownWrites struct {
	last sync.Map // ownWrite, by kube.Key
}

// An ownWrite is what the API server has stored at a write.
type ownWrite struct {
	uid     types.UID
	version string
}

// set records what the API server has answered to a write.
func (o *ownWrites) set(written metav1.Object) {
	o.last.Store(kube.KeyOf(written), ownWrite{written.GetUID(), written.GetResourceVersion()})
}

// unseen reports whether a cached object is older than the last write of it. The watch
// event of that write enqueues the key.
func (o *ownWrites) unseen(cached metav1.Object) bool {
	known, ok := o.last.Load(kube.KeyOf(cached))
	if !ok {
		return false
	}
	last, _ := known.(ownWrite)
	older, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.version)
	return err == nil && older < 0 && cached.GetUID() == last.uid
}

// forget drops the record of an object.
func (o *ownWrites) forget(key kube.Key) { o.last.Delete(key) }
