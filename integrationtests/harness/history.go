package harness

import (
	"context"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A History keeps every version of the deployments of one bundle.
type History struct {
	mu       sync.Mutex
	versions map[string][]*fleet.BundleDeployment // by namespace
}

// Follow begins to watch the deployments of a bundle of the repository, until
// the story ends. It returns when the present versions are known.
func (r *Repository) Follow(bundle string) *History {
	r.w.t.Helper()
	h := &History{versions: map[string][]*fleet.BundleDeployment{}}
	cache := kube.NewCache[*fleet.BundleDeployment](r.w.Local.Client, kube.Watch{Labels: fleet.LabelBundleName + "=" + bundle}, nil)
	cache.OnChange(func(_, now *fleet.BundleDeployment) {
		if now == nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.versions[now.Namespace] = append(h.versions[now.Namespace], now)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cache.Run(ctx) }()
	r.w.t.Cleanup(func() {
		cancel()
		r.w.must(<-done)
	})
	r.w.Until("the history of "+bundle+" begins", func() string {
		if cache.HasSynced() {
			return ""
		}
		return "the first list is on its way"
	})
	return h
}

// Of lists the versions of the deployment in a namespace, oldest first.
func (h *History) Of(namespace string) []*fleet.BundleDeployment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*fleet.BundleDeployment(nil), h.versions[namespace]...)
}

// Now is the present moment, as audit logs have it.
func (w *World) Now() time.Time { return time.Now() }
