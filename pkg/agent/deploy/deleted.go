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

// A manager that knows no orders, the reference's, removes a deployment by
// deleting its object. Whether such a manager has written the object is what the
// object says, or else the mark on the Cluster. To an agent that watches the deletion
// it is an order. One that only finds the object missing knows nothing, unless it has
// kept that the object was about to go: it may have been lost.

// orderOfDeletion is the prefix of the order that a watched deletion implies.
const orderOfDeletion = "deleted "

// deletions are those that the watch reported and that are not in a record yet, by
// name.
type deletions struct {
	link    *link
	records records
	guard   *restoreguard.Guard
	enqueue func(name string)

	mu   sync.Mutex
	last map[string]*fleet.BundleDeployment
}

func (d *deletions) note(bd *fleet.BundleDeployment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = map[string]*fleet.BundleDeployment{}
	}
	d.last[bd.Name] = bd
}

func (d *deletions) take(name string) *fleet.BundleDeployment {
	d.mu.Lock()
	defer d.mu.Unlock()
	bd := d.last[name]
	delete(d.last, name)
	return bd
}

// watched records that a deployment was deleted while the agent watched.
func (d *deletions) watched(s *Session, last *fleet.BundleDeployment) {
	if withdrawal.WatchedDeletion(last, d.link.mark.Load().Protocol > 0) {
		d.note(last)
		d.enqueue(last.Name)
		return
	}
	if _, known := d.records.of(last.Name, *d.link.mark.Load()); known && s.CheckIn != nil {
		s.CheckIn() // reports the orphan
	}
}

// keep writes down that the deletion of a deployment is an order, before
// anything is done about it. One that is there again was not meant to go.
func (d *deletions) keep(ctx context.Context, name string) error {
	last := d.take(name)
	if last == nil {
		return nil
	}
	if s := d.link.session.Load(); s != nil {
		if _, there := s.Deployments.Get(kube.KeyOf(last)); there {
			return nil
		}
	}
	mark := *d.link.mark.Load()
	rec, known := d.records.of(name, mark)
	if !known {
		rec = store.Record{
			Key: store.Key{Manager: mark.ID, Name: name}, Epoch: mark.Epoch, UID: last.UID, Generation: last.Generation,
			Labels: own(last.Labels), Spec: *last.Spec.DeepCopy(), Release: helm.IDOf(name, last.Spec.Options),
			Applied: last.Status.AppliedDeploymentID,
		}
	}
	rec.Ordered = orderOfDeletion + string(last.UID)
	if err := d.records.Save(ctx, rec); err != nil {
		d.note(last)
		return err
	}
	return nil
}

// keepAbsence writes down that the absence of a deployment is an order, where it is
// one, before anything is done about it.
func (d *deletions) keepAbsence(ctx context.Context, s *snapshot) error {
	if !s.missing() || s.wanted.Order != "" {
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

// missing reports whether the manager's list lacks a deployment whose last state was
// kept. With that state an order can be distinguished from a loss.
func (s *snapshot) missing() bool {
	return s.bd == nil && s.known && s.rec.Last != nil && s.session != nil && s.session.Deployments.HasSynced()
}
