package gitrepo

import (
	"context"
	"errors"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Reconcile brings the Bundles of one GitRepo in line with its repository.
//
//  1. gather: the GitRepo, its credentials, what the poller found
//  2. decide: gitrepo.Decide
//  3. act:    read and write, or remove
//  4. report: one patch of the status, if its meaning changed
//
// It may run at any time and any number of times.
func (w *Worker) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	repo, ok := w.cache.repos.Get(key)
	if !ok || !w.cfg.Scope.Owns(repo) { // gone, or of another manager
		w.poller.unfollow(key)
		w.memories.forget(key)
		w.cfg.Metrics.forget(key)
		return kube.Done, nil
	}
	log := w.log.WithFields(naming.LogFields("gitrepo", repo))
	facts, what, err := w.gather(ctx, repo)
	if err != nil {
		return kube.Done, err
	}
	step := gitrepo.Decide(facts)
	switch step.Action {
	case gitrepo.Remove:
		w.poller.unfollow(key)
		return w.remove(ctx, repo)
	case gitrepo.Fetch:
		if facts.Repo, err = w.announce(ctx, facts); kube.IsGone(err) {
			return kube.Done, nil
		}
		if err != nil {
			return kube.Done, err
		}
		err = w.fetch(ctx, &facts, what, step, log)
	case gitrepo.Wait:
		if facts.Head == nil && what.follow.generation != 0 {
			return kube.Done, nil // the answer arrives soon, and enqueues the GitRepo
		}
	}
	if !w.owns(key) { // another manager reconciles the GitRepo now
		return kube.Done, nil
	}
	if err := w.report(ctx, facts); err != nil {
		return kube.Done, err
	}
	return w.next(key, facts, err)
}

// owns reports whether this manager reconciles a GitRepo, by the state of the cache.
func (w *Worker) owns(key kube.Key) bool {
	repo, ok := w.cache.repos.Get(key)
	return !ok || w.cfg.Scope.Owns(repo)
}

// retryBase is what the delay grows from after which something is fetched again
// that could not be had.
const retryBase = 5 * time.Second

// next returns when a GitRepo is reconciled again: as retry does, but not later than the
// end of the time for which a commit is awaited that a webhook announced.
func (w *Worker) next(key kube.Key, facts gitrepo.Facts, err error) (kube.Result, error) {
	result, err := w.retry(key, facts, err)
	if _, left := gitrepo.AwaitedCommit(facts.Repo.Status, w.now()); left > 0 && (result.After == 0 || result.After > left) {
		result.After = left
	}
	return result, err
}

// retry returns when a GitRepo is reconciled again. After an error that may pass, it is
// after a growing delay, which the status shows; otherwise when an event enqueues it.
func (w *Worker) retry(key kube.Key, facts gitrepo.Facts, err error) (kube.Result, error) {
	repo := facts.Repo
	switch {
	case err == nil && facts.Read.Retry && facts.Head != nil && facts.Read.Commit == facts.Head.Commit:
		return kube.Result{After: gitrepo.Delay(retryBase, w.memories.get(key, repo.UID).fetches, 0)}, nil
	case err == nil && w.memories.get(key, repo.UID).missing.count() > 0:
		return kube.Result{After: w.memories.get(key, repo.UID).missing.retryAfter()}, nil
	case err == nil, reconcile.IsTerminal(err):
		return kube.Done, nil
	case errors.Is(err, context.Canceled):
		return kube.Done, err
	}
	failures := w.memories.get(key, repo.UID).fetches
	return kube.Result{After: gitrepo.Delay(time.Second, failures, 0)}, nil
}

// what says what is read, and with which rights.
type what struct {
	follow want // what the poller was asked to look at
	access access
}

// gather reads the inputs of the decision.
func (w *Worker) gather(ctx context.Context, repo *fleet.GitRepo) (gitrepo.Facts, what, error) {
	key := kube.KeyOf(repo)
	m := w.memories.get(key, repo.UID)
	f := gitrepo.Facts{
		Repo:      repo,
		Suspended: w.suspended(),
		Lost:      m.lost,
		Read:      m.read,
	}
	if f.ScansOff = !w.cfg.ImageScans; f.ScansOff {
		f.Missing = support.ImageScansOff(&repo.Spec)
	}
	if repo.DeletionTimestamp != nil {
		return f, what{}, nil
	}
	if withdrawal.IsProtected(repo) {
		held, err := w.repos.AddFinalizer(ctx, repo, fleet.FinalizerGitRepo) // also before it has a Bundle
		if err != nil {
			return f, what{}, err
		}
		repo, f.Repo = held, held
	}
	repo, err := w.setDefaults(ctx, repo)
	if err != nil {
		return f, what{}, err
	}
	if repo, err = w.migrateRegex(ctx, repo); err != nil {
		return f, what{}, err
	}
	f.Repo = repo
	if f.Refused = w.cache.limits.Of(repo.Namespace).GitRepoError(&repo.Spec); f.Refused != nil {
		w.poller.unfollow(key)
		return f, what{}, nil
	}
	f.Appeared = w.names.hasAppeared(ctx, repo, m)
	a, err := w.credentials.access(ctx, repo)
	switch {
	case reconcile.IsTerminal(err):
		f.Refused = err
	case err != nil:
		return f, what{}, err
	}
	if f.Refused != nil {
		w.poller.unfollow(key)
		return f, what{}, nil
	}
	if repo, err = w.replaceFormerHashes(ctx, repo, a); err != nil {
		return f, what{}, err
	}
	f.Repo = repo
	follow := want{
		src: a.git, ref: git.Reference{Branch: repo.Spec.Branch, Revision: repo.Spec.Revision},
		interval:   gitrepo.Interval(repo, w.poller.commit(key), w.credentials.verifiesWebhooks(repo)),
		generation: repo.Generation, announcement: gitrepo.Announcement(repo.Status),
	}
	follow.awaits, _ = gitrepo.AwaitedCommit(repo.Status, w.now())
	f.Source, f.Credentials, f.ReadWith = a.git.ID(), hashesID(a.hashes), hashesID(repo.Annotations)
	if f.Head = w.poller.follow(key, follow); f.Head != nil {
		f.Head.Err = a.explain(f.Head.Err)
	}
	return f, what{follow: follow, access: a}, nil
}

// setDefaults writes the defaults of the namespace into the spec of a GitRepo, and removes
// its label with the name of a person.
func (w *Worker) setDefaults(ctx context.Context, repo *fleet.GitRepo) (*fleet.GitRepo, error) {
	limits := w.cache.limits.Of(repo.Namespace)
	_, named := repo.Labels[fleet.LabelCreatedByDisplayName]
	if spec := repo.Spec; !limits.SetGitRepoDefaults(&spec) && !named {
		return repo, nil
	}
	return w.repos.Mutate(ctx, repo, func(r *fleet.GitRepo) error {
		limits.SetGitRepoDefaults(&r.Spec)
		delete(r.Labels, fleet.LabelCreatedByDisplayName)
		return nil
	})
}
