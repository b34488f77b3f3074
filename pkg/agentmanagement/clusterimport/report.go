package clusterimport

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// tries is how often a note is written again if the Cluster has changed meanwhile. The
// import is not repeated for that.
const tries = 5

// online reports whether the agent of a Cluster checks in.
func online(c *fleet.Cluster) bool {
	return condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected)
}

// reporter writes on Clusters how their imports went. It knows which of its writes the cache
// has not shown yet.
type reporter struct {
	now      func() time.Time
	caches   *cache.Shared
	events   *kube.Recorder
	clusters *kube.Store[*fleet.Cluster]

	mu     sync.Mutex
	unseen map[kube.Key]string // versions that were written and that the cache has not shown yet
}

// writeRecord writes the result of an import to its Cluster. It returns a
// reconcile.RequeueAfter if that was deleted and created again meanwhile: the agent has
// nothing to register with the new one.
func (rp *reporter) writeRecord(ctx context.Context, c *fleet.Cluster, r clusterimport.Record) error {
	for try := 1; ; try++ {
		noted, err := rp.clusters.Patch(ctx, c, r.Annotate(c))
		if kube.IsConflict(err) && try < tries {
			live, err := rp.clusters.Get(ctx, kube.KeyOf(c))
			if err != nil {
				return err
			}
			if live.UID != c.UID {
				return reconcile.RequeueError(fleet.ReasonProgressing, lookSoon, errors.New("record the import: the Cluster was created again"))
			}
			c = live
			continue
		}
		rp.setWritten(c, noted, err)
		if err != nil {
			return err
		}
		return rp.writeCondition(ctx, noted, noted, &r, nil)
	}
}

// report writes condition Imported of a Cluster: True unless failed is an error.
func (rp *reporter) report(ctx context.Context, judged *fleet.Cluster, failed error) error {
	c, ok := rp.caches.Clusters.Get(kube.KeyOf(judged))
	if !ok {
		return nil
	}
	if rp.mayBeOutdated(c) || !sameImport(judged, c) {
		live, err := rp.clusters.Get(ctx, kube.KeyOf(c))
		if err != nil {
			return kube.IgnoreGone(err)
		}
		rp.onLive(c, live)
		c = live
	}
	var r *clusterimport.Record
	if failed == nil {
		r = clusterimport.RecordOf(judged)
	}
	return rp.writeCondition(ctx, judged, c, r, failed)
}

// writeCondition writes condition Imported, and repeats that if the Cluster has changed
// meanwhile. It returns a reconcile.RequeueAfter if the Cluster asks for another import
// now.
func (rp *reporter) writeCondition(ctx context.Context, judged, c *fleet.Cluster, r *clusterimport.Record, failed error) error {
	for try := 1; ; try++ {
		if !sameImport(judged, c) {
			return reconcile.RequeueError(fleet.ReasonProgressing, lookSoon, errors.New("report the import: the Cluster has changed meanwhile"))
		}
		err := rp.write(ctx, c, r, failed)
		if !kube.IsConflict(err) || try == tries {
			return err
		}
		if c, err = rp.clusters.Get(ctx, kube.KeyOf(c)); err != nil {
			return kube.IgnoreGone(err)
		}
	}
}

// sameImport reports whether two versions of a Cluster ask for the same import and have
// the same result.
func sameImport(a, b *fleet.Cluster) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Status.AgentConfigChanged == b.Status.AgentConfigChanged &&
		a.Annotations[clusterimport.AnnotationImported] == b.Annotations[clusterimport.AnnotationImported]
}

// write patches the record of an import, condition Imported and the status fields of a
// Cluster.
func (rp *reporter) write(ctx context.Context, c *fleet.Cluster, r *clusterimport.Record, failed error) error {
	imported := fleet.Condition{
		Type: fleet.ConditionImported, Status: corev1.ConditionTrue, ObservedGeneration: c.Generation,
	}
	if failed != nil {
		imported.Status, imported.Reason = corev1.ConditionFalse, downstream.ReasonOf(failed)
		imported.Message = condition.Message(failed.Error())
	}
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Set(c.Status.Conditions, imported, rp.now())
	if r != nil && !r.MadeByRancherFleet() {
		r.NoteStatus(&changed.Status)
	}
	was := condition.Find(c.Status.Conditions, fleet.ConditionImported)
	written, err := rp.clusters.PatchStatus(ctx, c, changed)
	rp.setWritten(c, written, err)
	if err != nil {
		return err
	}
	if failed != nil && (was == nil || was.Reason != imported.Reason || was.Message != imported.Message) {
		rp.events.Event(c, kube.Warning, imported.Reason, failed.Error())
	}
	return nil
}

// unknownVersion is the resourceVersion after a write whose answer was lost.
const unknownVersion = "?"

// setWritten records that a Cluster was written: until the cache has that version, its
// Cluster is outdated.
func (rp *reporter) setWritten(c, written *fleet.Cluster, err error) {
	version := unknownVersion
	switch {
	case err == nil:
		version = written.ResourceVersion
	case kube.IsConflict(err):
		return // nothing was written
	}
	if version == c.ResourceVersion {
		return // nothing was to be written
	}
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.unseen[kube.KeyOf(c)] = version
}

// mayBeOutdated reports whether a cached Cluster may be older than the last write.
func (rp *reporter) mayBeOutdated(c *fleet.Cluster) bool {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	version, ok := rp.unseen[kube.KeyOf(c)]
	return ok && version != c.ResourceVersion
}

// onLive drops the record of setWritten if a cached Cluster equals the one of the API
// server.
func (rp *reporter) onLive(c, live *fleet.Cluster) {
	if c.ResourceVersion != live.ResourceVersion {
		return
	}
	rp.mu.Lock()
	defer rp.mu.Unlock()
	delete(rp.unseen, kube.KeyOf(c))
}

// onCached drops the record of setWritten if the cache has the written version.
func (rp *reporter) onCached(c *fleet.Cluster) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if version := rp.unseen[kube.KeyOf(c)]; version == c.ResourceVersion {
		delete(rp.unseen, kube.KeyOf(c))
	}
}

func (rp *reporter) forget(key kube.Key) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	delete(rp.unseen, key)
}
