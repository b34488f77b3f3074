package bundle

import (
	"context"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A protected GitRepo or Bundle that is deleted keeps its finalizer, and what it
// deployed stays, until a person has approved the list of what would go. The approval
// takes the protection off the object, so that it is not asked for twice.

// guardOf says what protects a Bundle; empty where nothing does.
func (e *guards) guardOf(b *fleet.Bundle) string {
	return withdrawal.Guard(b, e.table.Repo(ownerOf(b)))
}

// heldFor is the reason of condition DeletionHeld.
func heldFor(protected bool) string {
	if protected {
		return fleet.ReasonProtected
	}
	return fleet.ReasonDeletionHeld
}

// guard decides about protected Bundles that are being deleted, each alone.
func (e *guards) guard(ctx context.Context, list []*fleet.Bundle) (kube.Result, error) {
	next := kube.Done
	for _, b := range list {
		v := e.judgeGuarded(b)
		if v.Approved {
			if _, err := e.unguard(ctx, b); err != nil {
				return kube.Done, err
			}
			e.logFor(kube.KeyOf(b)).WithField("reason", "approved as "+v.Hash).Info("deletion goes on")
			e.decideDeletions([]*fleet.Bundle{b}, deletion{state: ordered})
			continue
		}
		next = kube.Result{After: heldAgain}
		subject := fleetstate.Subject{Kind: fleetstate.KindBundle, Key: kube.KeyOf(b)}
		if err := e.budgets.hold(ctx, subject, b, v); err != nil {
			return kube.Done, err
		}
		e.decideDeletions([]*fleet.Bundle{b}, deletion{state: held, guarded: true, reason: e.guardOf(b), message: v.Message(approval(subject, v.Hash))})
	}
	return next, nil
}

// judgeGuarded decides about a protected Bundle by all of its deployments.
func (e *guards) judgeGuarded(b *fleet.Bundle) withdrawal.Verdict {
	key := kube.KeyOf(b)
	deployments, _ := e.table.Deployments(key)
	r := withdrawal.Removal{
		Unit: "deployment", Total: len(deployments), Deleted: b.UID, Approved: b.Annotations[fleet.AnnotationApproveDeletion],
	}
	for cluster, bd := range deployments {
		item, _ := e.budgets.item(cluster, ownerOf(b), bd, func(other kube.Key) bool { return other == key })
		r.Items = append(r.Items, item)
	}
	return withdrawal.JudgeProtected(r, e.guardOf(b))
}

// unguard removes the protection of a Bundle whose removal a person, or the budget of
// its GitRepo, has approved. It returns the Bundle as it is now; nil if it is gone.
func (e *guards) unguard(ctx context.Context, b *fleet.Bundle) (*fleet.Bundle, error) {
	if e.guardOf(b) == "" {
		return b, nil
	}
	changed := b.DeepCopy()
	changed.Annotations = withdrawal.Unprotected(b.Annotations)
	got, err := e.bundles.Patch(ctx, b, changed)
	if kube.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.observe(got)
	return got, nil
}

// reconcileRepoDeletion holds a protected GitRepo that is being deleted. The process
// that reads repositories removes its Bundles once it is not protected any more. Where
// its namespace or its kind is being deleted, its Bundles are held for the workspace.
func (e *guards) reconcileRepoDeletion(ctx context.Context, repo *fleet.GitRepo, own []*fleet.Bundle) (kube.Result, error) {
	subject := fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: kube.KeyOf(repo)}
	if !withdrawal.Protects(repo) || !slices.Contains(repo.Finalizers, fleet.FinalizerGitRepo) {
		e.deletionBudget.forgetRepo(subject.Key)
		return kube.Done, e.budgets.unhold(ctx, subject, repo)
	}
	if !e.table.Settled() {
		return kube.Result{After: collect}, nil
	}
	why, err := e.endingOf(ctx, repo)
	if err != nil {
		return kube.Done, err
	}
	v := e.judgeRepo(repo, own)
	if why == "" && v.Held {
		return kube.Result{After: heldAgain}, e.budgets.hold(ctx, subject, repo, v)
	}
	if why == "" {
		why = "approved as " + v.Hash
	}
	changed := repo.DeepCopy()
	changed.Annotations = withdrawal.Unprotected(repo.Annotations)
	got, err := e.repos.Patch(ctx, repo, changed)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	got.ManagedFields = nil
	e.enqueue(e.table.SetRepo(got))
	e.log.WithField("workspace", repo.Namespace).WithField("gitrepo", repo.Name).WithField("reason", why).Info("deletion goes on")
	return again, nil
}

// endingOf says why it is for its workspace to hold what a GitRepo deployed; empty
// where its namespace and its kind stay.
func (e *guards) endingOf(ctx context.Context, repo *fleet.GitRepo) (string, error) {
	origin := withdrawal.Origin{}
	var err error
	if origin.Namespace, err = e.client.NamespaceLifetime(ctx, repo.Namespace); err != nil {
		return "", err
	}
	if origin.Owner, err = e.client.KindLifetime(ctx, fleetstate.KindGitRepo); err != nil {
		return "", err
	}
	return origin.Unordered(repo.DeletionTimestamp.Time), nil
}

// judgeRepo decides about a protected GitRepo by all Bundles that would be removed.
func (e *guards) judgeRepo(repo *fleet.GitRepo, own []*fleet.Bundle) withdrawal.Verdict {
	r := withdrawal.Removal{Unit: "bundle", Total: len(own), Deleted: repo.UID, Approved: repo.Annotations[fleet.AnnotationApproveDeletion]}
	leaves := func(other kube.Key) bool {
		return slices.ContainsFunc(own, func(b *fleet.Bundle) bool { return kube.KeyOf(b) == other })
	}
	for _, b := range own {
		item := withdrawal.Item{Name: b.Name, UID: b.UID}
		deployments, _ := e.table.Deployments(kube.KeyOf(b))
		for cluster, bd := range deployments {
			part, _ := e.budgets.item(cluster, kube.KeyOf(repo), bd, leaves)
			item.Things = append(item.Things, part.Things...)
		}
		r.Items = append(r.Items, item)
	}
	return withdrawal.JudgeProtected(r, "the GitRepo is protected")
}
