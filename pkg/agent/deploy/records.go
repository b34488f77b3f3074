package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// records are the deployments that the agent has accepted.
type records struct{ *store.Store }

// recordOf returns the record of a deployment: that of the present manager, else that
// of an earlier manager.
func (r records) recordOf(name string, mark registration.Mark) (store.Record, bool) {
	if rec, ok := r.Get(store.Key{Manager: mark.ID, Name: name}); ok {
		return rec, true
	}
	return r.Named(name)
}

// save writes the record of a deployment for the present manager. It replaces the
// record of an earlier manager.
func (r records) save(ctx context.Context, s *snapshot) error {
	old := s.rec.Key
	s.updateRecord()
	if err := r.Save(ctx, s.rec); err != nil {
		return err
	}
	s.hasRecord = true
	return r.dropOld(ctx, s, old)
}

// dropOld removes records of the same deployment under another manager.
func (r records) dropOld(ctx context.Context, s *snapshot, old store.Key) error {
	if old == s.rec.Key || old.Name == "" {
		return nil
	}
	return r.Drop(ctx, old)
}
