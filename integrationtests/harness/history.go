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
	w        *World
	mu       sync.Mutex
	versions map[string][]*fleet.BundleDeployment // by namespace
	gone     map[string]bool                      // the newest one is the last
}

// Follow begins to watch the deployments of a bundle of the repository, until
// the test ends. It returns when the present versions are known.
func (r *Repository) Follow(bundle string) *History {
	r.w.t.Helper()
	h := &History{w: r.w, versions: map[string][]*fleet.BundleDeployment{}, gone: map[string]bool{}}
	watch(r.w, kube.Watch{Labels: fleet.LabelBundleName + "=" + bundle}, func(old, now *fleet.BundleDeployment) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if now == nil {
			h.gone[old.Namespace] = true
			return
		}
		h.gone[now.Namespace] = false
		h.versions[now.Namespace] = append(h.versions[now.Namespace], now)
	})
	return h
}

// Reached returns a channel that is closed as soon as that many deployments
// of the repository are asked to deploy a commit.
func (r *Repository) Reached(commit string, deployments int) <-chan struct{} {
	r.w.t.Helper()
	reached, seen := make(chan struct{}), map[kube.Key]bool{}
	watch(r.w, kube.Watch{Labels: fleet.LabelRepoName + "=" + r.Name}, func(_, now *fleet.BundleDeployment) {
		if now == nil || now.Labels[fleet.LabelCommit] != commit || len(seen) == deployments {
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
	watch(r.w, kube.Watch{Namespace: r.Workspace, Fields: "metadata.name=" + r.Name}, func(_, now *fleet.GitRepo) {
		if !closed && now != nil && now.Status.Commit == commit && isTrue(now.Status.Conditions, fleet.ConditionReady) {
			closed = true
			close(ready)
		}
	})
	return ready
}

// watch calls seen for every version of some objects of the management cluster,
// with the version before it, one after the other, until the test ends; nil stands
// for an object that is not there.
func watch[P kube.Object](w *World, what kube.Watch, seen func(old, now P)) {
	w.t.Helper()
	cache := kube.NewCache[P](w.Local.Client, what, nil)
	cache.OnChange(seen)
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

// Of lists all versions of a deployment that is gone from a namespace, oldest first.
func (h *History) Of(namespace string) []*fleet.BundleDeployment {
	h.w.t.Helper()
	h.w.Until("the watch tells that the deployment is gone from "+namespace, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.gone[namespace] {
			return ""
		}
		return "not yet"
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*fleet.BundleDeployment(nil), h.versions[namespace]...)
}

// Now is the present moment, as audit logs have it.
func (w *World) Now() time.Time { return time.Now() }
