package gitrepo

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// eventRegexMigrated is the reason of the event for a helmRepoURLRegex that was set.
const eventRegexMigrated = "HelmRepoURLRegexMigrated"

// migrateRegex sets the helmRepoURLRegex of a GitRepo that comes from a manager that did not
// know the field, so that its charts are downloaded with credentials as before. Where
// rancher/fleet has migrated all GitRepos, nothing is left to do.
func (w *Worker) migrateRegex(ctx context.Context, repo *fleet.GitRepo) (*fleet.GitRepo, error) {
	if !gitrepo.NeedsRegex(repo) {
		return repo, nil
	}
	if _, done := w.cache.config.Get(kube.Key{Namespace: w.cfg.Namespace, Name: fleet.ConfigMapRegexMigrated}); done {
		return repo, nil
	}
	bundles, err := w.bundles.List(ctx, repo.Namespace, fleet.LabelRepoName+"="+repo.Name)
	if err != nil {
		return repo, err
	}
	regex := gitrepo.RegexOf(bundles)
	if regex == "" {
		return repo, nil
	}
	repo, err = w.repos.Mutate(ctx, repo, func(r *fleet.GitRepo) error {
		if !gitrepo.NeedsRegex(r) {
			return nil
		}
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[fleet.AnnotationRegexMigrated] = "true"
		r.Spec.HelmRepoURLRegex = regex
		return nil
	})
	if err != nil {
		return repo, err
	}
	const why = "credentials of charts go only to URLs that match helmRepoURLRegex; set it to the hosts of the existing Bundles: "
	w.events.Event(repo, kube.Normal, eventRegexMigrated, why+regex)
	w.log.WithFields(naming.LogFields("gitrepo", repo)).WithField("reason", "it was read by a manager without this field").
		Infof("helmRepoURLRegex set to %s", regex)
	return repo, nil
}
