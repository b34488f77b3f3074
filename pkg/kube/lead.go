package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A Lease is what a process must hold while it works.
type Lease struct {
	Namespace string
	Name      string
	// Identity tells holders apart. It is stable for one process.
	Identity string
	// Duration, Renew and Retry are 30 s, 25 s and 10 s where zero.
	Duration, Renew, Retry time.Duration
}

// ErrLeaseLost says that another process has taken the lease, or that it could
// not be renewed in time.
var ErrLeaseLost = errors.New("lease lost")

// Lead waits for a lease and calls f while it is held. When ctx ends, f ends
// first and then the lease is given back, so that two holders never work at
// once. It returns f's error, ErrLeaseLost, or nil when ctx ended.
func Lead(ctx context.Context, c *Client, l Lease, f func(context.Context) error) error {
	leases, err := coordinationv1.NewForConfig(c.Loop("lease").REST())
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	t := &term{done: make(chan struct{})}
	elect, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if t.abstain() {
			stop()
		}
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		LeaseDuration:   orElse(l.Duration, 30*time.Second),
		RenewDeadline:   orElse(l.Renew, 25*time.Second),
		RetryPeriod:     orElse(l.Retry, 10*time.Second),
		ReleaseOnCancel: true,
		Name:            l.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lead context.Context) {
				t.serve(ctx, lead, f)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	elector.Run(elect)
	defer giveBack(leases.Leases(l.Namespace), l)
	if t.abstain() {
		return nil
	}
	<-t.done
	if t.err == nil && ctx.Err() == nil && t.lost {
		return fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, ErrLeaseLost)
	}
	return t.err
}

// releaseTime is how long giving a lease back may take. Who does not get it
// waits until it runs out.
const releaseTime = 5 * time.Second

// giveBack makes sure that a lease is not ours any more. The elector gives it
// back with one request, which fails where a renewal that was called off at
// the same moment reaches the API server before it.
func giveBack(leases coordinationv1.LeaseInterface, l Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	for ctx.Err() == nil {
		have, err := leases.Get(ctx, l.Name, metav1.GetOptions{})
		if err != nil || have.Spec.HolderIdentity == nil || *have.Spec.HolderIdentity != l.Identity {
			return
		}
		have.Spec.HolderIdentity, have.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		if _, err = leases.Update(ctx, have, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// A term is the time of one leader, which may never come.
type term struct {
	mu        sync.Mutex
	led       bool // f has begun
	abstained bool // f must not begin any more
	lost      bool // the lease ended before f did
	err       error
	done      chan struct{}
}

// abstain makes sure that f does not begin; it is false if it has begun.
func (t *term) abstain() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abstained = !t.led
	return t.abstained
}

// serve calls f until ctx or the lease ends.
func (t *term) serve(ctx, lease context.Context, f func(context.Context) error) {
	t.mu.Lock()
	if t.abstained {
		t.mu.Unlock()
		return
	}
	t.led = true
	t.mu.Unlock()
	defer close(t.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(lease, cancel)()
	t.err = f(ctx)
	t.lost = lease.Err() != nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
