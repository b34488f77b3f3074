package kube

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Back-off of a key whose reconciliation failed for a reason that may pass.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 30 * time.Second
)

// Result says when a key wants to be looked at again without a wake-up.
type Result struct {
	// After is the time from now; 0 means not before a wake-up.
	After time.Duration
}

// Sooner returns a result that comes after a time at the latest; 0 changes nothing.
func (r Result) Sooner(after time.Duration) Result {
	if after > 0 && (r.After == 0 || after < r.After) {
		r.After = after
	}
	return r
}

// Done is Next for a key that waits for a wake-up.
var Done = Result{}

// A Controller works on keys with a number of workers, each key by one worker at a
// time. A key that is added several times before a worker takes it is worked on once.
// Wake-ups carry keys only.
type Controller struct {
	name      string
	workers   int
	reconcile func(context.Context, Key) (Result, error)
	queue     workqueue.TypedRateLimitingInterface[Key]
	order     *order
	onError   func(Key, error)
	onDone    func(result string, took time.Duration)
}

// NewController makes a loop that calls reconcile. The error that reconcile returns
// decides what follows: none forgets the key until Next or a wake-up;
// reconcile.Terminal waits for a wake-up; reconcile.RequeueAfter tries again after its time;
// any other error tries again after 5 ms, doubling up to 30 s.
func NewController(name string, workers int, reconcile func(context.Context, Key) (Result, error)) *Controller {
	o := newOrder()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[Key](firstDelay, lastDelay)
	base := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Queue: base})
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[Key]{DelayingQueue: delaying})
	return &Controller{name: name, workers: max(workers, 1), reconcile: reconcile, queue: queue, order: o}
}

// Name returns the loop's name, as it appears in logs, metrics and User-Agents.
func (l *Controller) Name() string { return l.name }

// OnDone sets a function that gets how each run ended ("ok", "wait", "permanent" or
// "error") and how long it took. It must be set before the loop runs.
func (l *Controller) OnDone(f func(result string, took time.Duration)) { l.onDone = f }

// Add wakes a key up.
func (l *Controller) Add(key Key) { l.queue.Add(key) }

// AddFirst wakes a key up ahead of all that were added by Add: it is for what
// a person has just done.
func (l *Controller) AddFirst(key Key) {
	l.order.first(key)
	l.queue.Add(key)
}

// AddAfter enqueues a key after a delay. If a key has several delays, the earliest
// applies.
func (l *Controller) AddAfter(key Key, after time.Duration) { l.queue.AddAfter(key, after) }

// Len returns how many keys wait for a worker.
func (l *Controller) Len() int { return l.queue.Len() }

// Run works until ctx ends and then waits for the workers.
func (l *Controller) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var group errgroup.Group
	for range l.workers {
		group.Go(func() error {
			for l.processNext(ctx) {
			}
			return nil
		})
	}
	return group.Wait()
}

// processNext works on one key; it is false when the loop is over.
func (l *Controller) processNext(ctx context.Context) bool {
	key, over := l.queue.Get()
	if over {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	start := time.Now()
	next, err := l.guarded(ctx, key)
	result := l.schedule(ctx, key, next, err)
	if l.onDone != nil {
		l.onDone(result, time.Since(start))
	}
	return true
}

// guarded turns a panic of reconcile into an error: one broken object must
// not stop the others.
func (l *Controller) guarded(ctx context.Context, key Key) (next Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in loop %s: %v\n%s", l.name, p, debug.Stack())
		}
	}()
	return l.reconcile(ctx, key)
}

// schedule decides from the result of a run when the key is enqueued again.
func (l *Controller) schedule(ctx context.Context, key Key, next Result, err error) string {
	var wait *reconcile.RequeueAfter
	var permanent *reconcile.Terminal
	result := "ok"
	switch {
	case err == nil:
		l.queue.Forget(key)
	case errors.As(err, &permanent):
		l.queue.Forget(key)
		result = "permanent"
	case errors.As(err, &wait):
		l.queue.Forget(key)
		next.After = wait.After
		result = "wait"
	case ctx.Err() != nil:
		return "error"
	default:
		l.queue.AddRateLimited(key)
		result = "error"
	}
	if next.After > 0 {
		l.queue.AddAfter(key, next.After)
	}
	if err != nil && l.onError != nil && !IsConflict(err) {
		l.onError(key, err)
	}
	return result
}

// order is a queue in which keys that were marked as first overtake the rest;
// otherwise first come, first served.
type order struct {
	mu     sync.Mutex
	marked map[Key]bool
	items  []ranked
	count  uint64
}

type ranked struct {
	key   Key
	first bool
	turn  uint64
}

func newOrder() *order { return &order{marked: map[Key]bool{}} }

func (o *order) first(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.items {
		if o.items[i].key == key {
			o.items[i].first = true
			heap.Fix(o.heap(), i)
			return
		}
	}
	o.marked[key] = true
}

// Touch is called when a key that waits already is added again.
func (o *order) Touch(Key) {}

// Push is called when a key joins the queue.
func (o *order) Push(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	heap.Push(o.heap(), ranked{key: key, first: o.marked[key], turn: o.count})
	delete(o.marked, key)
}

// Len returns how many keys wait.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items)
}

// Pop removes and returns the next key.
func (o *order) Pop() Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	return heap.Pop(o.heap()).(ranked).key
}

func (o *order) heap() *rankedHeap { return (*rankedHeap)(&o.items) }

type rankedHeap []ranked

func (h rankedHeap) Len() int { return len(h) }
func (h rankedHeap) Less(i, j int) bool {
	if h[i].first != h[j].first {
		return h[i].first
	}
	return h[i].turn < h[j].turn
}
func (h rankedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *rankedHeap) Push(x any)   { *h = append(*h, x.(ranked)) }
func (h *rankedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
