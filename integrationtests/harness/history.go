package harness

import (
	"context"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A History keeps every version of some deployments.
type History struct {
	mu       sync.Mutex
	versions map[string][]*fleet.BundleDeployment // by namespace
}

// Follow begins to watch the deployments of a bundle of the repository, until
// the story ends. It returns when the present versions are known.
func (r *Repository) Follow(bundle string) *History {
	r.w.t.Helper()
	h := &History{versions: map[string][]*fleet.BundleDeployment{}}
	watch(r.w, kube.Watch{Labels: fleet.LabelBundleName + "=" + bundle}, func(now *fleet.BundleDeployment) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.versions[now.Namespace] = append(h.versions[now.Namespace], now)
	})
	return h
}

// Reached returns a channel that is closed as soon as that many deployments
// of the repository are asked to deploy a commit.
func (r *Repository) Reached(commit string, deployments int) <-chan struct{} {
	r.w.t.Helper()
	reached, seen := make(chan struct{}), map[kube.Key]bool{}
	watch(r.w, kube.Watch{Labels: fleet.LabelRepoName + "=" + r.Name}, func(now *fleet.BundleDeployment) {
		if now.Labels[fleet.LabelCommit] != commit || len(seen) == deployments {
			return
		}
		seen[kube.KeyOf(now)] = true
		if len(seen) == deployments {
			close(reached)
		}
	})
	return reached
}

// ReadyAt returns a channel that is closed as soon as the GitRepo says that a
// commit is Ready, if only for a moment.
func (r *Repository) ReadyAt(commit string) <-chan struct{} {
	r.w.t.Helper()
	ready, closed := make(chan struct{}), false
	watch(r.w, kube.Watch{Namespace: r.Workspace, Fields: "metadata.name=" + r.Name}, func(now *fleet.GitRepo) {
		if !closed && now.Status.Commit == commit && isTrue(now.Status.Conditions, fleet.ConditionReady) {
			closed = true
			close(ready)
		}
	})
	return ready
}

// watch tells seen of every version of some objects of the management
// cluster, one after the other, until the story ends.
func watch[P kube.Object](w *World, what kube.Watch, seen func(P)) {
	w.t.Helper()
	cache := kube.NewCache[P](w.Local.Client, what, nil)
	cache.OnChange(func(_, now P) {
		if any(now) != any(*new(P)) { // not gone
			seen(now)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cache.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		w.must(<-done)
	})
	w.Until(cache.Name()+" is watched", func() string {
		if cache.HasSynced() {
			return ""
		}
		return "the first list is on its way"
	})
}

// Of lists the versions of the deployment in a namespace, oldest first.
func (h *History) Of(namespace string) []*fleet.BundleDeployment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*fleet.BundleDeployment(nil), h.versions[namespace]...)
}

// Now is the present moment, as audit logs have it.
func (w *World) Now() time.Time { return time.Now() }
