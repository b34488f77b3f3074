package publish

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// prune removes Bundles. Their finalizer keeps them until their deployments are
// withdrawn, which is the engine's work.
func (p *Publisher) prune(ctx context.Context, o Order, list []*fleet.Bundle) (int, error) {
	removed := 0
	for _, b := range list {
		if why := p.cfg.Suspended(); why != "" {
			return removed, fault.WaitError(fleet.ReasonSuspended, 0, errors.New(why))
		}
		if err := p.Remove(ctx, b); err != nil {
			return removed, err
		}
		removed++
		tell(o.Log, b.Name, "no longer in the repository", "bundle removed")
	}
	return removed, nil
}

// Remove deletes one Bundle, if it is still the one that is meant.
func (p *Publisher) Remove(ctx context.Context, b metav1.Object) error {
	failed := p.cfg.Removing(b.GetUID())
	err := p.bundles.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: b.GetUID()})
	if err != nil {
		failed()
	}
	return err
}
