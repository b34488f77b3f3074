package workspace

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// byOwner is the index of management Clusters by the provisioning Cluster that they
// were made of.
const byOwner = "owner"

// A deletionLoop deletes the management Cluster of a deleted provisioning Cluster, also
// if the cluster has moved to another workspace. Its keys are those of provisioning
// Clusters.
type deletionLoop struct {
	log          *logrus.Entry
	part         *part
	view         *caches
	loop         *kube.Controller
	management   *kube.Store[*management.Cluster]
	provisioning *kube.Store[*provisioning.Cluster]

	missing *missingTimes

	mu    sync.Mutex
	asked map[kube.Key]bool // provisioning Clusters that were seen with a deletion timestamp
}

func newDeletionLoop(p ports) *deletionLoop {
	c := p.client.Loop("rancher-moves")
	l := &deletionLoop{
		log: p.log, part: p.part, view: p.view, management: kube.StoreOf[*management.Cluster](c), provisioning: kube.StoreOf[*provisioning.Cluster](c),
		asked: map[kube.Key]bool{}, missing: newMissingTimes(p.now),
	}
	l.loop = kube.NewController("rancher-moves", 2, l.Reconcile)
	p.view.management.Index(byOwner, func(m *management.Cluster) []string { return []string{plan.ProvisionedFrom(m)} })
	p.view.provisioning.OnChange(l.onProvisioning)
	p.view.management.OnChange(func(old, m *management.Cluster) { l.onManagement(orOld(old, m)) })
	return l
}

// onProvisioning enqueues a changed provisioning Cluster, and records whether its
// deletion was seen.
func (l *deletionLoop) onProvisioning(old, p *provisioning.Cluster) {
	key := kube.KeyOf(orOld(old, p))
	if p != nil {
		l.missing.forget(key)
		l.setDeletionSeen(key, p.DeletionTimestamp != nil)
	}
	l.loop.Add(key)
}

// setDeletionSeen records whether a provisioning Cluster was seen with a deletion
// timestamp.
func (l *deletionLoop) setDeletionSeen(key kube.Key, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asked, key)
	if asked {
		l.asked[key] = true
	}
}

// wasDeletionSeen reports whether setDeletionSeen has recorded a deletion.
func (l *deletionLoop) wasDeletionSeen(key kube.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[key]
}

// onManagement enqueues the provisioning Cluster of a management Cluster.
func (l *deletionLoop) onManagement(m *management.Cluster) {
	if from := plan.ProvisionedFrom(m); from != "" {
		l.loop.Add(kube.ParseKey(from))
	}
}

// enqueueAll enqueues all objects of the loop.
func (l *deletionLoop) enqueueAll() {
	for _, m := range l.view.management.List("") {
		l.onManagement(m)
	}
}

// Reconcile deletes what was made from a deleted provisioning Cluster. The provisioning
// Cluster may have been deleted while this process was not running: marks on the
// objects show that.
func (l *deletionLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if _, there := l.view.provisioning.Get(key); there {
		return kube.Done, nil
	}
	made := l.view.management.ByIndex(byOwner, key.String())
	if len(made) == 0 { // also while Rancher maps: what was seen is not kept forever
		l.missing.forget(key)
		l.setDeletionSeen(key, false)
	}
	if len(made) == 0 || !l.part.managerMaps() {
		return kube.Done, nil
	}
	asked, missing := l.wasDeletionSeen(key), l.missing.missingFor(key)
	next := kube.Done
	for _, m := range made {
		goes, left := plan.IsForsaken(m, asked, missing)
		next.After = max(next.After, left)
		if !goes {
			continue
		}
		if err := l.deleteManagement(ctx, key, m); err != nil {
			return kube.Done, err
		}
	}
	return next, nil
}

// deleteManagement deletes a management Cluster if the API server confirms that its
// provisioning Cluster does not exist.
func (l *deletionLoop) deleteManagement(ctx context.Context, key kube.Key, m *management.Cluster) error {
	if _, err := l.provisioning.Get(ctx, key); !kube.IsGone(err) {
		return err
	}
	if err := l.management.Delete(ctx, kube.KeyOf(m), kube.Precondition{UID: m.UID}); err != nil {
		return fmt.Errorf("delete cluster %q: %w", m.Name, err)
	}
	l.log.WithField("workspace", key.Namespace).WithField("cluster", key.Name).
		WithField("reason", "its provisioning cluster was deleted").Info("management cluster deleted")
	return nil
}
