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

// protectionOf returns what protects a Bundle from deletion; empty if it is not
// protected.
func (g *guards) protectionOf(b *fleet.Bundle) string {
	return withdrawal.Guard(b, g.table.Repo(repoOf(b)))
}

// heldReason returns the reason of condition DeletionHeld.
func heldReason(protected bool) string {
	if protected {
		return fleet.ReasonProtected
	}
	return fleet.ReasonDeletionHeld
}

// reconcileProtected decides about protected Bundles that are being deleted, each
// separately.
func (g *guards) reconcileProtected(ctx context.Context, list []*fleet.Bundle) (kube.Result, error) {
	next := kube.Done
	for _, b := range list {
		v := g.judgeProtected(b)
		if v.Approved {
			if _, err := g.removeProtection(ctx, b); err != nil {
				return kube.Done, err
			}
			g.logFor(kube.KeyOf(b)).WithField("reason", "approved as "+v.Hash).Info("deletion goes on")
			g.decideDeletions([]*fleet.Bundle{b}, deletion{state: ordered})
			continue
		}
		next = kube.Result{After: heldAgain}
		subject := fleetstate.Subject{Kind: fleetstate.KindBundle, Key: kube.KeyOf(b)}
		if err := g.budgets.reportHeld(ctx, subject, b, v); err != nil {
			return kube.Done, err
		}
		g.decideDeletions([]*fleet.Bundle{b}, deletion{state: held, guarded: true, reason: g.protectionOf(b), message: v.Message(approveCommand(subject, v.Hash))})
	}
	return next, nil
}

// judgeProtected decides about one protected Bundle by all of its deployments.
func (g *guards) judgeProtected(b *fleet.Bundle) withdrawal.Verdict {
	key := kube.KeyOf(b)
	deployments, _ := g.table.Deployments(key)
	r := withdrawal.Removal{
		Unit: "deployment", Total: len(deployments), Deleted: b.UID, Approved: b.Annotations[fleet.AnnotationApproveDeletion],
	}
	for cluster, bd := range deployments {
		item, _ := g.budgets.removalItem(cluster, repoOf(b), bd, func(other kube.Key) bool { return other == key })
		r.Items = append(r.Items, item)
	}
	return withdrawal.DecideProtected(r, g.protectionOf(b))
}

// removeProtection removes the protection of a Bundle whose deletion was approved by a
// user or by the budget of its GitRepo. It returns the Bundle as written; nil if it
// does not exist any more.
func (g *guards) removeProtection(ctx context.Context, b *fleet.Bundle) (*fleet.Bundle, error) {
	if g.protectionOf(b) == "" {
		return b, nil
	}
	changed := b.DeepCopy()
	changed.Annotations = withdrawal.Unprotected(b.Annotations)
	got, err := g.bundles.Patch(ctx, b, changed)
	if kube.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.observe(got)
	return got, nil
}

// reconcileRepoDeletion holds a protected GitRepo that is being deleted. When the
// protection is removed, gitjob deletes its Bundles. If the namespace of the GitRepo or
// its kind is being deleted, the decision about the workspace holds the Bundles
// instead.
func (g *guards) reconcileRepoDeletion(ctx context.Context, repo *fleet.GitRepo, own []*fleet.Bundle) (kube.Result, error) {
	subject := fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: kube.KeyOf(repo)}
	if !withdrawal.IsProtected(repo) || !slices.Contains(repo.Finalizers, fleet.FinalizerGitRepo) {
		g.deletionBudget.forgetRepo(subject.Key)
		return kube.Done, g.budgets.clearHeld(ctx, subject, repo)
	}
	if !g.table.Settled() {
		return kube.Result{After: collectTime}, nil
	}
	why, err := g.ownerDeletedReason(ctx, repo)
	if err != nil {
		return kube.Done, err
	}
	v := g.judgeRepo(repo, own)
	if why == "" && v.Held {
		return kube.Result{After: heldAgain}, g.budgets.reportHeld(ctx, subject, repo, v)
	}
	if why == "" {
		why = "approved as " + v.Hash
	}
	changed := repo.DeepCopy()
	changed.Annotations = withdrawal.Unprotected(repo.Annotations)
	got, err := g.repos.Patch(ctx, repo, changed)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	got.ManagedFields = nil
	g.enqueue(g.table.SetRepo(got))
	g.log.WithField("workspace", repo.Namespace).WithField("gitrepo", repo.Name).WithField("reason", why).Info("deletion goes on")
	return again, nil
}

// ownerDeletedReason returns that the namespace or the kind of a GitRepo is being
// deleted; empty if only the GitRepo is.
func (g *guards) ownerDeletedReason(ctx context.Context, repo *fleet.GitRepo) (string, error) {
	origin := withdrawal.Origin{}
	var err error
	if origin.Namespace, err = g.client.NamespaceLifetime(ctx, repo.Namespace); err != nil {
		return "", err
	}
	if origin.Owner, err = g.client.KindLifetime(ctx, fleetstate.KindGitRepo); err != nil {
		return "", err
	}
	return origin.Unordered(repo.DeletionTimestamp.Time), nil
}

// judgeRepo decides about a protected GitRepo by all Bundles that would be removed.
func (g *guards) judgeRepo(repo *fleet.GitRepo, own []*fleet.Bundle) withdrawal.Verdict {
	r := withdrawal.Removal{Unit: "bundle", Total: len(own), Deleted: repo.UID, Approved: repo.Annotations[fleet.AnnotationApproveDeletion]}
	leaves := func(other kube.Key) bool {
		return slices.ContainsFunc(own, func(b *fleet.Bundle) bool { return kube.KeyOf(b) == other })
	}
	for _, b := range own {
		item := withdrawal.Item{Name: b.Name, UID: b.UID}
		deployments, _ := g.table.Deployments(kube.KeyOf(b))
		for cluster, bd := range deployments {
			part, _ := g.budgets.removalItem(cluster, kube.KeyOf(repo), bd, leaves)
			item.DataObjects = append(item.DataObjects, part.DataObjects...)
		}
		r.Items = append(r.Items, item)
	}
	return withdrawal.DecideProtected(r, "the GitRepo is protected")
}
