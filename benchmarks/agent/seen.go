package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// reported is a deployment that is reported as Ready with a deployment id.
type reported struct{ name, id string }

// changed is a ConfigMap of the site that has a version.
type changed struct{ name, version string }

// seen notes when something happened first, by watches of its own.
type seen struct {
	bds *kube.Cache[*fleet.BundleDeployment]

	mu      sync.Mutex
	at      map[any]time.Time // of reported and changed
	changes chan struct{}     // closed with the next one
}

// follow watches both clusters until ctx ends.
func follow(ctx context.Context, w *world) (*seen, error) {
	s := &seen{at: map[any]time.Time{}, changes: make(chan struct{})}
	s.bds = kube.NewCache[*fleet.BundleDeployment](w.hub.admin, kube.Watch{Namespace: deployments}, nil)
	s.bds.OnChange(func(_, bd *fleet.BundleDeployment) {
		if bd != nil && condition.IsTrue(bd.Status.Conditions, fleet.ConditionReady) {
			s.note(reported{bd.Name, bd.Status.AppliedDeploymentID})
		}
	})
	maps := kube.NewCache[*corev1.ConfigMap](w.site.admin, kube.Watch{Namespace: target}, nil)
	maps.OnChange(func(_, cm *corev1.ConfigMap) {
		if cm != nil {
			s.note(changed{cm.Name, cm.Data["version"]})
		}
	})
	go func() { _ = kube.Run(ctx, nil, s.bds, maps) }() // ends with ctx
	for !s.bds.HasSynced() || !maps.HasSynced() {
		if err := kube.Sleep(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *seen) note(what any) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[what]; known {
		return
	}
	s.at[what] = now
	close(s.changes)
	s.changes = make(chan struct{})
}

func (s *seen) look(what any) (at time.Time, ok bool, changes <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok = s.at[what]
	return at, ok, s.changes
}

var errTimeout = errors.New("not in time")

// wait returns when something has happened.
func (s *seen) wait(ctx context.Context, w *world, what any) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, errTimeout)
	defer cancel()
	for {
		at, ok, changes := s.look(what)
		if ok {
			return at, nil
		}
		select {
		case <-changes:
		case <-w.agent.done:
			return at, errEnded
		case <-ctx.Done():
			return at, fmt.Errorf("%v: %w", what, context.Cause(ctx))
		}
	}
}

// deployment is a BundleDeployment as it is now, nil if there is none.
func (s *seen) deployment(name string) *fleet.BundleDeployment {
	bd, _ := s.bds.Get(kube.Key{Namespace: deployments, Name: name})
	return bd
}
