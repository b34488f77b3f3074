package fleet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Repository is what the fleet deploys, as one GitRepo per workspace of each
// manager.
type Repository struct {
	Name   string
	URL    string
	Branch string

	// LocalPaths are what the management cluster itself gets; where empty, it
	// gets nothing and there is no GitRepo in fleet-local. Where a lower manager
	// runs, the manager above deploys.
	LocalPaths []string
	// Polling is how often the repository is asked for new commits.
	Polling time.Duration
}

// Deploy makes the GitRepos of r: everything goes to all downstream clusters of
// every manager, as far as its own fleet.yaml files allow.
func (f *Fleet) Deploy(ctx context.Context, r Repository) error {
	for _, t := range f.tiers {
		if err := f.deploy(ctx, t, r); err != nil {
			return err
		}
		r.LocalPaths = nil // of the first
	}
	return nil
}

func (f *Fleet) deploy(ctx context.Context, t *Tier, r Repository) error {
	repos := []*api.GitRepo{{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: r.Name},
		Spec: api.GitRepoSpec{
			Targets: []api.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}},
		},
	}}
	if len(r.LocalPaths) > 0 {
		repos = append(repos, &api.GitRepo{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceLocal, Name: r.Name},
			Spec:       api.GitRepoSpec{Paths: r.LocalPaths},
		})
	}
	if err := f.waitNamespace(ctx, t, api.NamespaceLocal); err != nil {
		return err
	}
	for _, repo := range repos {
		repo.Spec.Repo, repo.Spec.Branch = r.URL, r.Branch
		repo.Spec.PollingInterval = &metav1.Duration{Duration: r.Polling}
		if _, err := kube.StoreOf[*api.GitRepo](t.client).Create(ctx, repo); err != nil {
			return err
		}
	}
	return nil
}

// waitNamespace returns when the manager has made a namespace.
func (f *Fleet) waitNamespace(ctx context.Context, t *Tier, name string) error {
	return f.poll(ctx, "namespace "+name, func(ctx context.Context) (bool, error) {
		_, err := kube.StoreOf[*corev1.Namespace](t.client).Get(ctx, kube.Key{Name: name})
		if kube.IsGone(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// WaitReady returns when every GitRepo has read commit (whatever it has found
// where commit is empty) and everything is Ready, with the last Snapshot. If
// ctx ends before, the error says what is not Ready.
func (f *Fleet) WaitReady(ctx context.Context, commit string) (Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(f.ctx, func() { cancel(context.Cause(f.ctx)) })
	defer stop()
	var last Snapshot
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		snap, err := f.Look(ctx)
		if err == nil {
			last = snap
			pending := snap.Pending(commit)
			if pending == "" {
				return snap, nil
			}
			f.waitFor(pending)
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("%s: %w", f.Waiting(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}
