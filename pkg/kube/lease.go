package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationapi "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A Lease is what a process must hold while it works.
type Lease struct {
	Namespace string
	Name      string
	// Identity distinguishes holders. It does not change while the process runs.
	Identity string
	// Duration, Renew and Retry are 30 s, 25 s and 10 s where zero.
	Duration, Renew, Retry time.Duration
	// Watched takes the lease the moment that its holder gives it back, and not at
	// the next Retry. It takes the right to watch leases; without it nothing else
	// changes.
	Watched bool
	// Crashed, where not nil, is called before f when the lease was taken from a holder
	// that had not given it back, an earlier process of the same Identity included; and
	// after f when f has failed before its context ended.
	Crashed func(context.Context)
}

// ErrLeaseLost says that another process has taken the lease, or that it could
// not be renewed in time.
var ErrLeaseLost = errors.New("lease lost")

// Lead waits for a lease and calls f while it holds the lease. When ctx ends, f ends
// first, and then the lease is released, so that two holders never work at once. It
// returns f's error, ErrLeaseLost, or nil if ctx has ended.
func Lead(ctx context.Context, c *Client, l Lease, f func(context.Context) error) error {
	leases, err := coordinationv1.NewForConfig(c.Loop("lease").REST())
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	for {
		t := &term{done: make(chan struct{})}
		if again, err := t.run(ctx, candidate{leases, l}, f); !again {
			return err
		}
	}
}

// A candidate is one who wants a lease.
type candidate struct {
	leases coordinationv1.CoordinationV1Interface
	Lease
}

func (c candidate) client() coordinationv1.LeaseInterface { return c.leases.Leases(c.Namespace) }

// run waits for the lease and calls f while it holds the lease. again reports that
// another holder has released the lease meanwhile: the caller calls run again to
// acquire it at once.
func (t *term) run(ctx context.Context, c candidate, f func(context.Context) error) (again bool, err error) {
	elect, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if t.preventStart() {
			stop()
		}
	})()
	waiting, lead := context.WithCancel(elect)
	defer lead()
	lock := &firstTake{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Client:     c.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   orDefault(c.Duration, 30*time.Second),
		RenewDeadline:   orDefault(c.Renew, 25*time.Second),
		RetryPeriod:     orDefault(c.Retry, 10*time.Second),
		ReleaseOnCancel: true,
		Name:            c.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(holding context.Context) {
				lead()
				if c.Crashed != nil && lock.crashed.Load() {
					c.Crashed(holding)
				}
				t.serve(ctx, holding, f)
				if c.Crashed != nil && t.err != nil && ctx.Err() == nil {
					c.Crashed(ctx)
				}
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return false, fmt.Errorf("lease %s/%s: %w", c.Namespace, c.Name, err)
	}
	var vacant atomic.Bool
	if c.Watched {
		c.watchRelease(waiting, func() {
			if t.preventStart() {
				vacant.Store(true)
				stop()
			}
		})
	}
	elector.Run(elect)
	defer releaseLease(c.client(), c.Lease)
	if t.preventStart() {
		return vacant.Load() && ctx.Err() == nil, nil
	}
	<-t.done
	if t.err == nil && ctx.Err() == nil && t.lost {
		return false, fmt.Errorf("lease %s/%s: %w", c.Namespace, c.Name, ErrLeaseLost)
	}
	return false, t.err
}

// firstTake is a lock that notes whether it was taken from a holder that had not
// given it back.
type firstTake struct {
	resourcelock.Interface
	holder  string // in the record that was read last
	taken   bool
	crashed atomic.Bool
}

// Get reads the record of the lease.
func (f *firstTake) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := f.Interface.Get(ctx)
	if err == nil {
		f.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update writes the record; the first successful write acquires the lease.
func (f *firstTake) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := f.Interface.Update(ctx, record)
	if err == nil && !f.taken {
		f.taken = true
		f.crashed.Store(f.holder != "")
	}
	return err
}

// watchRelease calls given when another holder releases the lease, until ctx ends. It
// returns if it has no right to watch.
func (c candidate) watchRelease(ctx context.Context, given func()) {
	s := leaseWatch{identity: c.Identity}
	have, err := c.client().Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return // the lease does not exist, or cannot be read
	}
	s.isReleased(have)
	go func() {
		for ctx.Err() == nil {
			w, err := c.client().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.Name, ResourceVersion: s.version})
			if err != nil {
				return
			}
			back, ok := s.waitReleased(w)
			if back {
				given()
			}
			if back || !ok {
				return
			}
			_ = Sleep(ctx, time.Second) // the server ends watches from time to time
		}
	}()
}

// leaseWatch is a candidate's last look at a lease.
type leaseWatch struct {
	identity string // of the candidate
	taken    bool   // another process holds the lease
	version  string
}

// isReleased reports whether another holder has released the lease since the previous
// call.
func (lw *leaseWatch) isReleased(l *coordinationapi.Lease) (back bool) {
	lw.version = l.ResourceVersion
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	back = lw.taken && holder == ""
	lw.taken = holder != "" && holder != lw.identity
	return back
}

// waitReleased waits until the lease is released (back) or the watch ends. ok is false
// if the version to watch from is too old: then the elector's next try finds out.
func (lw *leaseWatch) waitReleased(w watch.Interface) (back, ok bool) {
	defer w.Stop()
	for e := range w.ResultChan() {
		l, ok := e.Object.(*coordinationapi.Lease)
		if !ok || e.Type == watch.Error {
			return false, false
		}
		if lw.isReleased(l) || e.Type == watch.Deleted && lw.taken {
			return true, true
		}
	}
	return false, true
}

// releaseTime is how long giving a lease back may take. If that fails, other processes
// wait until the lease expires.
const releaseTime = 5 * time.Second

// releaseLease makes sure that this process does not hold a lease. The elector releases
// it with one request, which fails if a cancelled renewal reaches the API server before
// it.
func releaseLease(leases coordinationv1.LeaseInterface, l Lease) {
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

// preventStart makes sure that f does not begin; false: it has begun.
func (t *term) preventStart() bool {
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

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
