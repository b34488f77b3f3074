package gitrepo

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// report writes the status if it has changed, and emits events for new errors.
func (w *Worker) report(ctx context.Context, facts gitrepo.Facts) error {
	var old, now fleet.GitRepoStatus
	_, err := w.repos.MutateStatus(ctx, facts.Repo, func(repo *fleet.GitRepo) error {
		old, facts.Repo = repo.Status, repo
		now = gitrepo.Status(facts, w.now())
		repo.Status = now
		return nil
	})
	if err != nil {
		return kube.IgnoreGone(err)
	}
	for _, n := range gitrepo.Changes(old, now, !facts.Repo.Spec.DisablePolling) {
		if n.Reason != facts.Read.Reason || n.Message != facts.Read.Message { // each of those has an event
			w.recordEvents(facts.Repo, n)
		}
	}
	return nil
}

// recordEvents emits an event for a change of the status.
func (w *Worker) recordEvents(repo *fleet.GitRepo, n gitrepo.Notice) {
	kind := kube.Normal
	if n.Warning {
		kind = kube.Warning
	}
	w.events.Event(repo, kind, n.Reason, n.Message)
}
