package deploy

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// predecessorFor is how long it is believed that an agent is there, or gone.
const predecessorFor = 4 * time.Second

// A predecessor is the agent that this one takes over from.
type predecessor struct {
	mu    sync.Mutex
	asked time.Time // when it was looked for last
	lives bool
}

// waitForPredecessor returns a wait if another agent, which this one replaces and which
// made the release, still exists.
func (r *releases) waitForPredecessor(ctx context.Context, s *snapshot) error {
	from := s.wanted.Predecessor.Namespace
	if from == "" || s.observed.Memory.Owner.AgentNamespace != from {
		return nil
	}
	p := &r.before
	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.now()
	if p.asked.IsZero() || now.Sub(p.asked) >= predecessorFor {
		lives, err := agentLives(ctx, r.live, from, now)
		if err != nil {
			return err
		}
		p.asked, p.lives = now, lives
	}
	s.wanted.Predecessor.Lives = p.lives
	return nil
}

// agentName is the name of an agent's Deployment, or StatefulSet in old versions
// of rancher/fleet, and of its lease.
const agentName = "fleet-agent"

// agentLives reports whether there is an agent in a namespace: a workload that runs it
// and is not scaled to zero, or a lease that it has not released.
func agentLives(ctx context.Context, live drift.Live, namespace string, now time.Time) (bool, error) {
	key := kube.Key{Namespace: namespace, Name: agentName}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	} {
		o, err := live.Get(ctx, kind, key)
		if kube.IsGone(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		if hasPods(o) {
			return true, nil
		}
	}
	o, err := live.Get(ctx, coordinationv1.SchemeGroupVersion.WithKind("Lease"), key)
	if kube.IsGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return leaseHeld(o, now), nil
}

// hasPods reports whether a Deployment has pods, or is about to have some.
func hasPods(o *unstructured.Unstructured) bool {
	wanted, set, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	there, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
	return !set || wanted > 0 || there > 0
}

// leaseHeld reports whether a lease has a holder.
func leaseHeld(o *unstructured.Unstructured, now time.Time) bool {
	var l coordinationv1.Lease
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &l); err != nil {
		return true // it is unknown
	}
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second))
}
