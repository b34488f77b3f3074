package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// watched is the GitRepos of the sources part, seen as they change.
type watched struct {
	fleet   *fleet.Fleet
	remotes *network
	store   *kube.Store[*api.GitRepo]
	cache   *kube.Cache[*api.GitRepo]
	stop    context.CancelFunc

	mu         sync.Mutex
	changed    chan struct{}   // closed with the next change
	complained map[string]bool // GitRepos of good remotes
}

func newWatched(ctx context.Context, f *fleet.Fleet, n *network) *watched {
	w := &watched{fleet: f, remotes: n, store: kube.StoreOf[*api.GitRepo](f.Client()), changed: make(chan struct{}), complained: map[string]bool{}}
	w.cache = kube.NewCache[*api.GitRepo](f.Client(), kube.Watch{Namespace: api.NamespaceDefault}, nil)
	w.cache.OnChange(func(_, repo *api.GitRepo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if repo != nil && complaint(repo) != "" && strings.HasPrefix(repo.Name, string(good)) {
			w.complained[repo.Name] = true
		}
		close(w.changed)
		w.changed = make(chan struct{})
	})
	watch, stop := context.WithCancel(ctx)
	w.stop = stop
	go func() { _ = w.cache.Run(watch) }() // ends with stop
	return w
}

// next is closed when something changes from now on.
func (w *watched) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// errTimeout is why a wait ends.
var errTimeout = errors.New("not in time")

// until returns when pending returns nothing.
func (w *watched) until(ctx context.Context, what string, pending func() string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	for {
		next := w.next()
		last := pending()
		if last == "" {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %s", what, context.Cause(ctx), last)
		}
	}
}

// create makes so many GitRepos, spread over all remotes.
func (w *watched) create(ctx context.Context, repos int) error {
	list := w.remotes.list
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, r := range list {
		r.follow(min(perRemote, (repos+len(list)-1-i)/len(list)))
		for j := range len(r.repos) {
			name := fmt.Sprintf("%s-%d", r.name, j)
			group.Go(func() error {
				_, err := w.store.Create(gctx, &api.GitRepo{
					ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: name},
					Spec: api.GitRepoSpec{
						Repo: r.url, Branch: r.repos[name], Paths: []string{fmt.Sprintf("app-%d", j)},
						PollingInterval: &metav1.Duration{Duration: interval},
					},
				})
				return err
			})
		}
	}
	return group.Wait()
}

// get is a GitRepo as it was seen last.
func (w *watched) get(name string) (*api.GitRepo, bool) {
	return w.cache.Get(kube.Key{Namespace: api.NamespaceDefault, Name: name})
}

// read names a GitRepo of a good remote that has not read the newest commit,
// and why.
func (w *watched) read() string {
	for _, r := range w.remotes.good() {
		if pending := w.readOf(r); pending != "" {
			return pending
		}
	}
	return ""
}

// readOf is read for the main branch of one remote, and for the other branch
// as well, where that has a commit of its own.
func (w *watched) readOf(r *remote) string {
	for name, branch := range r.repos {
		repo, ok := w.get(name)
		switch {
		case !ok:
			return name + " is not there"
		case repo.Status.Commit != r.head[branch]:
			return fmt.Sprintf("%s has commit %q, not %q: %s", name, repo.Status.Commit, r.head[branch], complaint(repo))
		}
	}
	return ""
}

// complaining names a GitRepo of a broken remote that does not say so.
func (w *watched) complaining() string {
	for _, r := range w.remotes.broken() {
		for name := range r.repos {
			if repo, ok := w.get(name); !ok || complaint(repo) == "" {
				return name + " does not complain"
			}
		}
	}
	return ""
}

// complaint is why a GitRepo could not be polled, or nothing.
func complaint(repo *api.GitRepo) string {
	for _, c := range repo.Status.Conditions {
		if c.Type == api.ConditionGitPolling && c.Status == "False" {
			return c.Message
		}
	}
	return ""
}

// complaints counts the GitRepos of good remotes that have complained since
// the last call.
func (w *watched) complaints() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.complained)
	w.complained = map[string]bool{}
	return n
}

// errNotPublished is why the times of a round would be worth nothing.
var errNotPublished = errors.New("the GitRepo names the commit, but its Bundle does not")

// published makes sure that the commits that were seen are in Bundles.
func (w *watched) published(ctx context.Context) error {
	bundles, err := kube.StoreOf[*api.Bundle](w.fleet.Client()).List(ctx, api.NamespaceDefault, "")
	if err != nil {
		return err
	}
	commits := map[string]string{}
	for _, b := range bundles {
		commits[b.Labels[api.LabelRepoName]] = b.Labels[api.LabelCommit]
	}
	for _, r := range w.remotes.good() {
		for name, branch := range r.repos {
			if w.readOf(r) == "" && commits[name] != r.head[branch] {
				return fmt.Errorf("%s: %w: %q, not %q", name, errNotPublished, commits[name], r.head[branch])
			}
		}
	}
	return nil
}

// removeBroken deletes the GitRepos of broken remotes and returns when they
// are gone and what waits for them has ended.
func (w *watched) removeBroken(ctx context.Context) error {
	for _, r := range w.remotes.broken() {
		for name := range r.repos {
			if err := w.store.Delete(ctx, kube.Key{Namespace: api.NamespaceDefault, Name: name}, kube.Precondition{}); err != nil {
				return err
			}
		}
	}
	err := w.until(ctx, "the broken ones are gone", func() string {
		var left []string
		for _, r := range w.remotes.broken() {
			for name := range r.repos {
				if _, ok := w.get(name); ok {
					left = append(left, name)
				}
			}
		}
		return strings.Join(left, ", ")
	})
	pause(ctx, slowest+answerTime) // until the last good one is asked again as if nothing had been
	return errors.Join(err, ctx.Err())
}
