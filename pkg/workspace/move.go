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

// moveLoop deletes the management Cluster of a provisioning Cluster that is gone,
// also where the cluster has moved to another workspace since. Its keys are those of
// provisioning Clusters.
type moveLoop struct {
	log          *logrus.Entry
	part         *part
	view         *caches
	loop         *kube.Controller
	management   *kube.Store[*management.Cluster]
	provisioning *kube.Store[*provisioning.Cluster]

	missing *absences

	mu    sync.Mutex
	asked map[kube.Key]bool // that were seen to be deleted
}

func newMoveLoop(p ports) *moveLoop {
	c := p.client.Loop("rancher-moves")
	l := &moveLoop{
		log: p.log, part: p.part, view: p.view, management: kube.StoreOf[*management.Cluster](c), provisioning: kube.StoreOf[*provisioning.Cluster](c),
		asked: map[kube.Key]bool{}, missing: newAbsences(p.now),
	}
	l.loop = kube.NewController("rancher-moves", 2, l.Reconcile)
	p.view.management.Index(byOwner, func(m *management.Cluster) []string { return []string{plan.ProvisionedFrom(m)} })
	p.view.provisioning.OnChange(l.onProvisioning)
	p.view.management.OnChange(func(old, m *management.Cluster) { l.ofManagement(either(old, m)) })
	return l
}

func (l *moveLoop) onProvisioning(old, p *provisioning.Cluster) {
	key := kube.KeyOf(either(old, p))
	if p != nil {
		l.missing.forget(key)
		l.ask(key, p.DeletionTimestamp != nil)
	}
	l.loop.Add(key)
}

// ask notes whether a provisioning Cluster was seen to be deleted.
func (l *moveLoop) ask(key kube.Key, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asked, key)
	if asked {
		l.asked[key] = true
	}
}

func (l *moveLoop) wasAsked(key kube.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[key]
}

func (l *moveLoop) ofManagement(m *management.Cluster) {
	if from := plan.ProvisionedFrom(m); from != "" {
		l.loop.Add(kube.ParseKey(from))
	}
}

// wake lets the loop look at everything.
func (l *moveLoop) wake() {
	for _, m := range l.view.management.List("") {
		l.ofManagement(m)
	}
}

// Reconcile deletes what was made of a provisioning Cluster that is gone. It may have
// gone while this process was not running: the marks on what was made of it show that.
func (l *moveLoop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if _, there := l.view.provisioning.Get(key); there {
		return kube.Done, nil
	}
	made := l.view.management.ByIndex(byOwner, key.String())
	if len(made) == 0 { // also while Rancher maps: what was seen is not kept forever
		l.missing.forget(key)
		l.ask(key, false)
	}
	if len(made) == 0 || !l.part.maps() {
		return kube.Done, nil
	}
	asked, missing := l.wasAsked(key), l.missing.of(key)
	next := kube.Done
	for _, m := range made {
		goes, left := plan.Forsaken(m, asked, missing)
		next.After = max(next.After, left)
		if !goes {
			continue
		}
		if err := l.forsake(ctx, key, m); err != nil {
			return kube.Done, err
		}
	}
	return next, nil
}

// forsake deletes a management Cluster whose provisioning Cluster is gone, as the API
// server itself says.
func (l *moveLoop) forsake(ctx context.Context, key kube.Key, m *management.Cluster) error {
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
