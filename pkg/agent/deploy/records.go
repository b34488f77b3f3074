package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// records are what the agent has accepted.
type records struct{ *store.Store }

// of finds the record of a deployment: that of the present manager, or
// one that an earlier manager left.
func (r records) of(name string, mark registration.Mark) (store.Record, bool) {
	if rec, ok := r.Get(store.Key{Manager: mark.ID, Name: name}); ok {
		return rec, true
	}
	return r.Named(name)
}

// save writes the record of a deployment as the manager asks for it now. A record that
// an earlier manager left is replaced.
func (r records) save(ctx context.Context, s *snapshot) error {
	old := s.rec.Key
	s.updateRecord()
	if err := r.Save(ctx, s.rec); err != nil {
		return err
	}
	s.known = true
	return r.dropOld(ctx, s, old)
}

// dropOld removes records of the same deployment under another manager.
func (r records) dropOld(ctx context.Context, s *snapshot, old store.Key) error {
	if old == s.rec.Key || old.Name == "" {
		return nil
	}
	return r.Drop(ctx, old)
}
