package deploy

import (
	"context"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A manager of rancher/fleet gives no orders to withdraw: it deletes the
// BundleDeployment. Its label, or else the mark on the Cluster, says which manager has
// written it. If the agent watches the deletion, the deletion is an order. If the agent
// only finds the object missing, the object may have been lost: that is an order only if
// the record says that the object was being deleted.

// orderOfDeletion is the prefix of the order that a watched deletion implies.
const orderOfDeletion = "deleted "

// deletions are the BundleDeployments whose deletion the agent has watched and not
// recorded yet, by name.
type deletions struct {
	link    *link
	records records
	guard   *restoreguard.Guard
	enqueue func(name string)

	mu   sync.Mutex
	last map[string]*fleet.BundleDeployment
}

func (d *deletions) add(bd *fleet.BundleDeployment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = map[string]*fleet.BundleDeployment{}
	}
	d.last[bd.Name] = bd
}

func (d *deletions) remove(name string) *fleet.BundleDeployment {
	d.mu.Lock()
	defer d.mu.Unlock()
	bd := d.last[name]
	delete(d.last, name)
	return bd
}

// onDeleted handles the deletion of a BundleDeployment that the agent has watched.
func (d *deletions) onDeleted(s *Session, last *fleet.BundleDeployment) {
	if withdrawal.WatchedDeletion(last, d.link.mark.Load().Protocol > 0) {
		d.add(last)
		d.enqueue(last.Name)
		return
	}
	if _, known := d.records.recordOf(last.Name, *d.link.mark.Load()); known && s.CheckIn != nil {
		s.CheckIn() // reports the orphan
	}
}

// recordOrder writes to the record that a watched deletion is an order to withdraw,
// before the agent carries it out. If the BundleDeployment exists again, it is no
// order.
func (d *deletions) recordOrder(ctx context.Context, name string) error {
	last := d.remove(name)
	if last == nil {
		return nil
	}
	if s := d.link.session.Load(); s != nil {
		if _, there := s.Deployments.Get(kube.KeyOf(last)); there {
			return nil
		}
	}
	mark := *d.link.mark.Load()
	rec, known := d.records.recordOf(name, mark)
	if !known {
		rec = store.Record{
			Key: store.Key{Manager: mark.ID, Name: name}, Epoch: mark.Epoch, UID: last.UID, Generation: last.Generation,
			Labels: ownLabels(last.Labels), Spec: *last.Spec.DeepCopy(), Release: helm.IDOf(name, last.Spec.Options),
			Applied: last.Status.AppliedDeploymentID,
		}
	}
	rec.Ordered = orderOfDeletion + string(last.UID)
	if err := d.records.Save(ctx, rec); err != nil {
		d.add(last)
		return err
	}
	return nil
}

// recordAbsence writes to the record that a missing BundleDeployment is an order to
// withdraw, if it is one, before the agent carries it out.
func (d *deletions) recordAbsence(ctx context.Context, s *snapshot) error {
	if !s.isMissing() || s.wanted.Order != "" {
		return nil
	}
	absence := withdrawal.Absence{
		Last: s.rec.Last, Version: s.rec.Version, ListVersion: s.session.Deployments.Version(), Restored: d.guard.Restored(),
	}
	if witness, ok := s.session.Deployments.Get(kube.Key{Namespace: s.session.Namespace, Name: s.rec.Last.Witness}); ok {
		absence.Witness = witness
	}
	if !absence.Ordered() {
		return nil
	}
	s.rec.Ordered = orderOfDeletion + string(s.rec.UID)
	s.wanted.Order = s.rec.Ordered
	return d.records.Save(ctx, s.rec)
}

// isMissing reports whether the manager's list lacks a deployment whose last state is
// in the record. That state shows whether its absence is an order or a loss.
func (s *snapshot) isMissing() bool {
	return s.bd == nil && s.hasRecord && s.rec.Last != nil && s.session != nil && s.session.Deployments.HasSynced()
}
