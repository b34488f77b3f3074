package deploy

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// orderOfCollection begins the order by which an orphan is collected.
const orderOfCollection = "collected "

// MadeBy reports whether an orphan was accepted from the agent's present manager, in
// its present epoch. It is false for a release without record.
func (r *Reconciler) MadeBy(name string) bool {
	mark := *r.mark.Load()
	rec, known := r.records.of(name, mark)
	return known && rec.Key.Manager == mark.ID && rec.Epoch == mark.Epoch
}

// Collect uninstalls an orphan, after the manager was asked once more and does not have
// its deployment. It leaves releases alone of which the agent keeps no record.
func (r *Reconciler) Collect(ctx context.Context, name, why string) error {
	s := r.session.Load()
	if s == nil {
		return nil
	}
	list, err := s.Statuses.List(ctx, s.Namespace, "")
	if err != nil {
		return fmt.Errorf("collect %q: %w", name, err)
	}
	for _, bd := range list {
		if bd.Name == name {
			return nil
		}
	}
	rec, known := r.records.of(name, *r.mark.Load())
	if !known {
		return nil
	}
	rec.Ordered = orderOfCollection + name
	if err := r.cfg.Store.Save(ctx, rec); err != nil {
		return err
	}
	r.cfg.Log.WithFields(logrus.Fields{
		"deployment": name, "action": string(release.Uninstall), "reason": why, "commit": rec.Labels[fleet.LabelCommit],
	}).Warn("orphan collected")
	r.loop.Add(kube.Key{Name: name})
	return nil
}
