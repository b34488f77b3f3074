package gitrepo

import (
	"context"
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// lookAgain is when a GitRepo that waits for its Bundles is looked at again even if no
// watch reports that they are gone.
const lookAgain = 30 * time.Second

// remove deletes the Bundles and ImageScans of a GitRepo that is being deleted, and removes its
// finalizer when they do not exist any more. It lists the Bundles at the API server,
// because the cache may not have a new Bundle yet. It reads the GitRepo after the list:
// if the GitRepo still exists, no listed Bundle belongs to a new GitRepo of the same
// name. An API server that does not serve Bundles, because their kind was deleted, has none:
// the GitRepo must not wait for a kind that may never come back.
func (w *Worker) remove(ctx context.Context, repo *fleet.GitRepo) (kube.Result, error) {
	if !slices.Contains(repo.Finalizers, fleet.FinalizerGitRepo) {
		return kube.Done, nil
	}
	own, err := w.bundles.List(ctx, repo.Namespace, fleet.LabelRepoName+"="+repo.Name)
	if err != nil && !kube.IsGone(err) {
		return kube.Done, err
	}
	live, err := w.repos.Get(ctx, kube.KeyOf(repo))
	if kube.IsGone(err) || err == nil && live.UID != repo.UID {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	if w.cfg.ImageScans {
		if err := w.publisher.RemoveScans(ctx, repo.Namespace, repo.Name); err != nil {
			return kube.Done, err
		}
	}
	for _, b := range own {
		if b.DeletionTimestamp != nil {
			continue
		}
		if err := w.publisher.Remove(ctx, b); err != nil {
			return kube.Done, err
		}
		w.log.WithField("workspace", b.Namespace).WithField("gitrepo", repo.Name).
			WithField("bundle", b.Name).WithField("reason", "the GitRepo is deleted").Info("bundle removed")
	}
	if len(own) > 0 {
		return kube.Result{After: lookAgain}, nil
	}
	_, err = w.repos.RemoveFinalizer(ctx, repo, fleet.FinalizerGitRepo)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	return kube.Done, err
}
