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

// Result says when a key is reconciled again without an event.
type Result struct {
	// After is the delay until then; 0: only after an event.
	After time.Duration
}

// Sooner returns the result with the shorter of its delay and after; an after of 0
// changes nothing.
func (r Result) Sooner(after time.Duration) Result {
	if after > 0 && (r.After == 0 || after < r.After) {
		r.After = after
	}
	return r
}

// Done is the Result of a key that is reconciled again only after an event.
var Done = Result{}

// A Controller reconciles keys with a number of workers, each key by one worker at a
// time. A key that is added several times before a worker takes it is reconciled once.
type Controller struct {
	name       string
	workers    int
	reconcile  func(context.Context, Key) (Result, error)
	queue      workqueue.TypedRateLimitingInterface[Key]
	priorities *priorityQueue
	onError    func(Key, error)
	onDone     func(result string, took time.Duration)
}

// NewController makes a Controller that calls reconcile. The error of reconcile decides
// what follows. nil: the key waits for Result.After or an event. reconcile.Terminal: it
// waits for an event. reconcile.RequeueAfter: it is reconciled again after that time.
// Any other error: it is reconciled again after 5 ms, doubling up to 30 s.
func NewController(name string, workers int, reconcile func(context.Context, Key) (Result, error)) *Controller {
	o := newPriorityQueue()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[Key](firstDelay, lastDelay)
	base := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Queue: base})
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[Key]{DelayingQueue: delaying})
	return &Controller{name: name, workers: max(workers, 1), reconcile: reconcile, queue: queue, priorities: o}
}

// Name returns the controller's name in logs, metrics and User-Agents.
func (l *Controller) Name() string { return l.name }

// OnDone sets a function that gets the result ("ok", "wait", "permanent" or "error")
// and the duration of each reconciliation. It must be called before Run.
func (l *Controller) OnDone(f func(result string, took time.Duration)) { l.onDone = f }

// Add enqueues a key.
func (l *Controller) Add(key Key) { l.queue.Add(key) }

// AddFirst enqueues a key ahead of all keys that Add enqueued: it is for changes by
// users.
func (l *Controller) AddFirst(key Key) {
	l.priorities.markFirst(key)
	l.queue.Add(key)
}

// AddAfter enqueues a key after a delay. If a key has several delays, the earliest
// applies.
func (l *Controller) AddAfter(key Key, after time.Duration) { l.queue.AddAfter(key, after) }

// Len returns how many keys wait for a worker.
func (l *Controller) Len() int { return l.queue.Len() }

// Run reconciles keys until ctx ends, and then waits for the workers.
func (l *Controller) Run(ctx context.Context) error {
	defer l.shutDownAfter(ctx)()
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

// shutDownAfter shuts the queue down when ctx ends, unless cancel is called before.
func (l *Controller) shutDownAfter(ctx context.Context) (cancel func() bool) {
	return context.AfterFunc(ctx, l.queue.ShutDown)
}

// processNext reconciles one key; false: the queue is shut down.
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
	next, err := l.reconcileSafely(ctx, key)
	result := l.schedule(ctx, key, next, err)
	if l.onDone != nil {
		l.onDone(result, time.Since(start))
	}
	return true
}

// reconcileSafely calls reconcile and turns a panic into an error: one broken object
// must not stop the others.
func (l *Controller) reconcileSafely(ctx context.Context, key Key) (next Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in loop %s: %v\n%s", l.name, p, debug.Stack())
		}
	}()
	return l.reconcile(ctx, key)
}

// schedule decides from the result of a reconciliation when the key is enqueued again.
// It returns the result for OnDone.
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

// A priorityQueue is a queue in which marked keys overtake the others; otherwise it is
// first in, first out.
type priorityQueue struct {
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

func newPriorityQueue() *priorityQueue { return &priorityQueue{marked: map[Key]bool{}} }

func (o *priorityQueue) markFirst(key Key) {
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
func (o *priorityQueue) Touch(Key) {}

// Push is called when a key joins the queue.
func (o *priorityQueue) Push(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	heap.Push(o.heap(), ranked{key: key, first: o.marked[key], turn: o.count})
	delete(o.marked, key)
}

// Len returns how many keys wait.
func (o *priorityQueue) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items)
}

// Pop removes and returns the next key.
func (o *priorityQueue) Pop() Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	return heap.Pop(o.heap()).(ranked).key
}

func (o *priorityQueue) heap() *rankedHeap { return (*rankedHeap)(&o.items) }

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
