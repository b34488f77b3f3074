package publish

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// removeBundles removes Bundles. Their finalizer keeps them until their deployments are
// withdrawn, which is the work of the controllers of Bundles.
func (p *Publisher) removeBundles(ctx context.Context, o Order, list []*fleet.Bundle) (int, error) {
	removed := 0
	for _, b := range list {
		if why := p.cfg.Suspended(); why != "" {
			return removed, reconcile.RequeueError(fleet.ReasonSuspended, 0, errors.New(why))
		}
		if err := p.Remove(ctx, b); err != nil {
			return removed, err
		}
		removed++
		logEvent(o.Log, b.Name, "no longer in the repository", "bundle removed")
	}
	return removed, nil
}

// markForRemoval marks Bundles, and asks for their removal when all of them are marked, so that a
// reader never takes a part of them for the whole. It returns the number of Bundles
// that did not have this mark before, and the names of those that had none.
func (p *Publisher) markForRemoval(ctx context.Context, o Order, list []*fleet.Bundle, markForRemoval string, done *Done) error {
	for _, b := range list {
		before := b.Annotations[fleet.AnnotationPrune]
		if before == markForRemoval {
			continue
		}
		if why := p.cfg.Suspended(); why != "" {
			return reconcile.RequeueError(fleet.ReasonSuspended, 0, errors.New(why))
		}
		changed := b.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[fleet.AnnotationPrune] = markForRemoval
		if err := p.store(ctx, gitrepo.Write{Old: b, New: changed}); err != nil {
			return err
		}
		done.Removed++
		if before == "" {
			done.Gone = append(done.Gone, b.Name)
		}
		logEvent(o.Log, b.Name, "no longer in the repository", "bundle to be removed")
	}
	return o.Pruning.Ask(ctx, markForRemoval)
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
