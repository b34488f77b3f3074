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
	// held them back that sends no event, such as a suspension.
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

// reconcilePrune decides what the Bundles of a GitRepo may remove: which Bundles are
// deleted, and which may replace their releases.
//
// gitjob marks the Bundles that a commit does not contain any more, and requests the
// deletion of all of them by one annotation on the GitRepo. The bundleController finds
// the releases that would be replaced. The pruneController decides about both, because
// it knows the deployed objects. A request that is held or refused changes nothing.
func (p *pruneController) reconcilePrune(ctx context.Context, key kube.Key) (kube.Result, error) {
	repo, own := p.table.RepoAndBundles(key)
	switch {
	case repo == nil || !p.cfg.Scope.Owns(repo):
		p.deletionBudget.forgetRepo(key)
		return kube.Done, nil
	case repo.DeletionTimestamp != nil:
		return p.guards.reconcileRepoDeletion(ctx, repo, own)
	}
	subject := fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key}
	mark := repo.Annotations[fleet.AnnotationPrune]
	marked, all := withdrawal.MarkedBundles(mark, own)
	if len(marked) == 0 {
		p.deletionBudget.setPruneApproved(key, "")
	}
	l := p.budgets.repoLossOf(repo, own, marked)
	if len(marked)+len(l.replaced) == 0 { // no removal is requested; later requests enqueue the GitRepo
		return kube.Done, p.budgets.clearHeld(ctx, subject, repo)
	}
	if p.suspension() != "" || !p.table.Settled() {
		return kube.Result{After: pruneRetry}, nil
	}
	if !l.approved && !all {
		if next, err := p.checkAllCached(ctx, key, mark, marked); err != nil || next != kube.Done {
			return next, err
		}
	}
	rest, v, after := p.budgets.judgeRepoLoss(l)
	if after > 0 {
		return kube.Result{After: after}, nil
	}
	p.budgets.permitReplacements(l, rest, v)
	if len(marked) > 0 && l.mayPrune(rest, v) {
		if next, err := p.prune(ctx, repo, marked); err != nil || next != kube.Done {
			return next, err
		}
	}
	if v.Held {
		return kube.Result{After: heldAgain}, p.budgets.reportHeld(ctx, subject, repo, v)
	}
	return kube.Done, p.budgets.clearHeld(ctx, subject, repo)
}

// checkAllCached returns a delay if the API server has more Bundles with a mark than
// the cache. There may be fewer than the request says: some may be deleted already.
func (p *pruneController) checkAllCached(ctx context.Context, key kube.Key, mark string, marked []*fleet.Bundle) (kube.Result, error) {
	live, err := p.bundles.List(ctx, key.Namespace, fleet.LabelRepoName+"="+key.Name)
	if err != nil {
		return kube.Done, fmt.Errorf("look for bundles to remove: %w", err)
	}
	if there, _ := withdrawal.MarkedBundles(mark, live); len(there) > len(marked) {
		return kube.Result{After: pruneSoon}, nil
	}
	return kube.Done, nil
}

// prune deletes marked Bundles in the version that was judged, unless the request was
// withdrawn meanwhile. Their finalizer keeps them until their deployments are
// withdrawn.
func (p *pruneController) prune(ctx context.Context, repo *fleet.GitRepo, marked []*fleet.Bundle) (kube.Result, error) {
	key, mark := kube.KeyOf(repo), repo.Annotations[fleet.AnnotationPrune]
	live, err := p.repos.Get(ctx, key)
	switch {
	case kube.IsGone(err):
		return kube.Done, nil
	case err != nil:
		return kube.Done, err
	case live.UID != repo.UID || live.Annotations[fleet.AnnotationPrune] != mark:
		return kube.Result{After: pruneSoon}, nil
	}
	p.deletionBudget.setPruneApproved(key, mark)
	slices.SortFunc(marked, func(a, b *fleet.Bundle) int { return strings.Compare(a.Name, b.Name) })
	next := kube.Done
	for _, b := range marked {
		if b.DeletionTimestamp != nil {
			continue
		}
		b, err := p.guards.removeProtection(ctx, b)
		if err != nil {
			return kube.Done, err
		}
		if b == nil {
			continue
		}
		err = p.bundles.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: b.UID, ResourceVersion: b.ResourceVersion})
		if kube.IsConflict(err) {
			next = kube.Result{After: pruneSoon} // another client has written the Bundle: the watch enqueues the GitRepo
			continue
		}
		if err != nil {
			return kube.Done, err
		}
		p.logFor(kube.KeyOf(b)).WithField("reason", "no longer in the repository").Info("bundle removed")
	}
	return next, nil
}

// nilObject returns obj as a kube.Object; a nil pointer becomes a nil interface.
func nilObject[P interface {
	comparable
	kube.Object
}](obj P) kube.Object {
	var none P
	if obj == none {
		return nil
	}
	return obj
}

// onPruneRequest enqueues the GitRepo and the Bundles that a request for a removal, or
// its approval, concerns. gitjob and users write these annotations.
func (p *pruneController) onPruneRequest(old, changed kube.Object) {
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
		if repo := repoOf(o); mark && repo.Name != "" {
			p.pruneQueue.Add(repo)
		}
		if word || protect {
			p.bundleQueue.AddFirst(kube.KeyOf(o))
		}
	case *fleet.GitRepo:
		budget := said(fleet.AnnotationDeletionBudget)
		if mark || word || budget || protect {
			p.pruneQueue.AddFirst(kube.KeyOf(o))
		}
		if protect {
			p.deletionQueue.Add(kube.Key{Namespace: o.Namespace})
		}
		if budget && old != nil {
			p.status[fleetstate.KindGitRepo].enqueue(kube.KeyOf(o), true)
			_, own := p.table.RepoAndBundles(kube.KeyOf(o))
			for _, b := range own {
				p.bundleQueue.Add(kube.KeyOf(b))
			}
		}
	}
}
