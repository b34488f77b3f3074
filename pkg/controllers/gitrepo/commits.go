package gitrepo

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Access is how a GitRepo's repository may be reached, for a loop that commits to it. It
// is decided in the same way as for reading.
type Access struct {
	Source git.Source
	// Writable reports that there are credentials.
	Writable bool
	// Refused and Suspended are those of gitrepo.Facts.
	Refused   error
	Suspended string

	access access
}

// Explain adds to an error of the git server which Secret or which missing field of the
// GitRepo is the cause.
func (a Access) Explain(err error) error {
	if err == nil {
		return nil
	}
	return a.access.explain(err)
}

// Access reads the Secrets of a GitRepo, and the limits of its namespace.
func (w *Worker) Access(ctx context.Context, repo *fleet.GitRepo) (Access, error) {
	out := Access{Refused: w.cache.limits.Of(repo.Namespace).GitRepoError(&repo.Spec), Suspended: w.suspended()}
	if out.Refused != nil {
		return out, nil
	}
	a, err := w.credentials.access(ctx, repo)
	switch {
	case reconcile.IsTerminal(err):
		out.Refused = err
	case err != nil:
		return Access{}, err
	}
	out.Source, out.access = a.git, a
	out.Writable = a.secret != nil || git.HasCredentials(repo.Spec.Repo)
	return out, nil
}

// Repo returns a GitRepo as the cache has it.
func (w *Worker) Repo(key kube.Key) (*fleet.GitRepo, bool) { return w.cache.repos.Get(key) }

// OnReconciled sets a function that is called with each GitRepo after it was reconciled:
// its spec, its Secrets, the limits of its namespace or the suspension may have changed. It
// must be called before the loops run.
func (w *Worker) OnReconciled(f func(kube.Key)) { w.reconciled = f }

// Look asks the repository of a GitRepo soon, as after a webhook: its branch has a new
// commit. It does nothing for a GitRepo that is not polled.
func (w *Worker) Look(key kube.Key) { w.poller.look(key) }

// look is Look.
func (p *poller) look(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.follows[key]
	r := p.remotes[id]
	if r == nil || r.followers[key].interval == 0 {
		return
	}
	p.pollSoon(id, r)
}
