package workspace

import (
	"context"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// run runs the manager in the background.
func (w *world) run(h *workspace.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, h.Runnables()...) }()
	test := w.now.test
	w.now.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			test.Errorf("the manager ended with %v", err)
		}
	})
	test.Cleanup(w.now.stop)
}

// stop stops the manager, and waits for its end.
func (w *world) stop() { w.now.stop() }
