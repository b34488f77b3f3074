package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

const (
	// pruneRetry is when Bundles marked for removal are looked at again if something
	// held them back that sends no event, such as the brake.
	pruneRetry = 5 * time.Second
	// pruneSoon is when a request is looked at again that the caches have only
	// in part.
	pruneSoon = 100 * time.Millisecond
)

// A pruneController removes the Bundles that a GitRepo does not have any more, within its
// deletion budget.
type pruneController struct {
	*base
	bundles        *kube.Store[*fleet.Bundle]
	repos          *kube.Store[*fleet.GitRepo]
	deletionBudget *deletionBudget
	budgets        *budgets
	guards         *guards
}

// reconcilePrune decides what the Bundles of a GitRepo may lose: which of them are
// removed, and which replace their releases.
//
// The reader of the repository marks the Bundles that it does not yield any more, and
// asks for the removal of all of them at once; the planner says which releases would be
// replaced. The decision is made here, because the deployed objects are known here.
// Held or refused requests change nothing.
func (e *pruneController) reconcilePrune(ctx context.Context, key kube.Key) (kube.Result, error) {
	repo, own := e.table.Owned(key)
	switch {
	case repo == nil || !e.cfg.Scope.Owns(repo):
		e.deletionBudget.forgetRepo(key)
		return kube.Done, nil
	case repo.DeletionTimestamp != nil:
		return e.guards.reconcileRepoDeletion(ctx, repo, own)
	}
	subject := fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key}
	mark := repo.Annotations[fleet.AnnotationPrune]
	marked, all := withdrawal.Marked(mark, own)
	if len(marked) == 0 {
		e.deletionBudget.approve(key, "")
	}
	l := e.budgets.lossOf(repo, own, marked)
	if len(marked)+len(l.replaced) == 0 { // nothing is asked, or it is gone; what comes later wakes us up
		return kube.Done, e.budgets.unhold(ctx, subject, repo)
	}
	if why, _ := e.held(key.Namespace); why != "" || !e.table.Settled() {
		return kube.Result{After: pruneRetry}, nil
	}
	if !l.granted && !all {
		if next, err := e.whole(ctx, key, mark, marked); err != nil || next != kube.Done {
			return next, err
		}
	}
	rest, v, after := e.budgets.judgeLoss(l)
	if after > 0 {
		return kube.Result{After: after}, nil
	}
	e.budgets.permitAll(l, rest, v)
	if len(marked) > 0 && l.mayPrune(rest, v) {
		if next, err := e.prune(ctx, repo, marked); err != nil || next != kube.Done {
			return next, err
		}
	}
	if v.Held {
		return kube.Result{After: heldAgain}, e.budgets.hold(ctx, subject, repo, v)
	}
	return kube.Done, e.budgets.unhold(ctx, subject, repo)
}

// whole makes sure that the caches have all Bundles with a mark, although they
// are fewer than the mark says: some may be gone already.
func (e *pruneController) whole(ctx context.Context, key kube.Key, mark string, marked []*fleet.Bundle) (kube.Result, error) {
	live, err := e.bundles.List(ctx, key.Namespace, fleet.LabelRepoName+"="+key.Name)
	if err != nil {
		return kube.Done, fmt.Errorf("look for bundles to remove: %w", err)
	}
	if there, _ := withdrawal.Marked(mark, live); len(there) > len(marked) {
		return kube.Result{After: pruneSoon}, nil
	}
	return kube.Done, nil
}

// prune deletes marked Bundles, each as it was judged, unless the request was
// taken back meanwhile. Their finalizer keeps them until their deployments are
// withdrawn.
func (e *pruneController) prune(ctx context.Context, repo *fleet.GitRepo, marked []*fleet.Bundle) (kube.Result, error) {
	key, mark := kube.KeyOf(repo), repo.Annotations[fleet.AnnotationPrune]
	live, err := e.repos.Get(ctx, key)
	switch {
	case kube.IsGone(err):
		return kube.Done, nil
	case err != nil:
		return kube.Done, err
	case live.UID != repo.UID || live.Annotations[fleet.AnnotationPrune] != mark:
		return kube.Result{After: pruneSoon}, nil
	}
	e.deletionBudget.approve(key, mark)
	slices.SortFunc(marked, func(a, b *fleet.Bundle) int { return strings.Compare(a.Name, b.Name) })
	next := kube.Done
	for _, b := range marked {
		if b.DeletionTimestamp != nil {
			continue
		}
		b, err := e.guards.unguard(ctx, b)
		if err != nil {
			return kube.Done, err
		}
		if b == nil {
			continue
		}
		err = e.bundles.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: b.UID, ResourceVersion: b.ResourceVersion})
		if kube.IsConflict(err) {
			next = kube.Result{After: pruneSoon} // it was written meanwhile: the watch reports it
			continue
		}
		if err != nil {
			return kube.Done, err
		}
		e.logFor(kube.KeyOf(b)).WithField("reason", "no longer in the repository").Info("bundle removed")
	}
	return next, nil
}

// nilled is an object of a type, or nothing at all.
func nilled[P interface {
	comparable
	kube.Object
}](obj P) kube.Object {
	var none P
	if obj == none {
		return nil
	}
	return obj
}

// asks enqueues the objects that a request for removals, or an answer to one, concerns.
// Users and the reader of repositories make such requests.
func (e *pruneController) asks(old, changed kube.Object) {
	said := func(key string) bool {
		if old == nil {
			return changed.GetAnnotations()[key] != ""
		}
		return old.GetAnnotations()[key] != changed.GetAnnotations()[key]
	}
	mark, word := said(fleet.AnnotationPrune), said(fleet.AnnotationApproveDeletion)
	protect := said(fleet.AnnotationProtect)
	switch o := changed.(type) {
	case *fleet.Bundle:
		if repo := ownerOf(o); mark && repo.Name != "" {
			e.pruneQueue.Add(repo)
		}
		if word || protect {
			e.bundleQueue.AddFirst(kube.KeyOf(o))
		}
	case *fleet.GitRepo:
		budget := said(fleet.AnnotationDeletionBudget)
		if mark || word || budget || protect {
			e.pruneQueue.AddFirst(kube.KeyOf(o))
		}
		if protect {
			e.deletionQueue.Add(kube.Key{Namespace: o.Namespace})
		}
		if budget && old != nil {
			e.status[fleetstate.KindGitRepo].wake(kube.KeyOf(o), true)
			_, own := e.table.Owned(kube.KeyOf(o))
			for _, b := range own {
				e.bundleQueue.Add(kube.KeyOf(b))
			}
		}
	}
}
