package bundle

import (
	"context"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// contentGrace is how long a content is kept after the last deployment that
// held it: a commit may be taken back.
const contentGrace = 10 * time.Minute

// reconcileContent deletes a content that no deployment has held for
// contentGrace.
func (e *Engine) reconcileContent(ctx context.Context, key kube.Key) (kube.Next, error) {
	c, ok := e.cache.contents.Get(key)
	if !ok || e.table.InUse(key.Name) {
		e.setUnused(key.Name, time.Time{})
		return kube.Done, nil
	}
	since := e.setUnused(key.Name, e.now())
	if left := contentGrace - e.now().Sub(since); left > 0 {
		return kube.Next{After: left}, nil
	}
	if c.Labels[fleet.LabelManagerID] != "" && c.Labels[fleet.LabelManagerID] != e.cfg.ManagerID {
		return kube.Done, nil // of another installation in the same cluster
	}
	if err := e.contents.Delete(ctx, key, kube.Precondition{UID: c.UID}); err != nil {
		return kube.Done, err
	}
	e.log.WithField("content", key.Name).Info("content deleted, nothing holds it")
	return kube.Done, nil
}

// setUnused notes since when no deployment holds a content, unless that is
// known already; the zero time means that one does. It returns since when.
func (e *Engine) setUnused(id string, at time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.IsZero() {
		delete(e.unused, id)
		return at
	}
	if _, ok := e.unused[id]; !ok {
		e.unused[id] = at
	}
	return e.unused[id]
}
