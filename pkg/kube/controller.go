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
func (c *Controller) Name() string { return c.name }

// OnDone sets a function that gets the result ("ok", "wait", "permanent" or "error")
// and the duration of each reconciliation. It must be called before Run.
func (c *Controller) OnDone(f func(result string, took time.Duration)) { c.onDone = f }

// Add enqueues a key.
func (c *Controller) Add(key Key) { c.queue.Add(key) }

// AddFirst enqueues a key ahead of all keys that Add enqueued: it is for changes by
// users.
func (c *Controller) AddFirst(key Key) {
	c.priorities.markFirst(key)
	c.queue.Add(key)
}

// AddAfter enqueues a key after a delay. If a key has several delays, the earliest
// applies.
func (c *Controller) AddAfter(key Key, after time.Duration) { c.queue.AddAfter(key, after) }

// Len returns how many keys wait for a worker.
func (c *Controller) Len() int { return c.queue.Len() }

// Run reconciles keys until ctx ends, and then waits for the workers.
func (c *Controller) Run(ctx context.Context) error {
	defer c.shutDownAfter(ctx)()
	var group errgroup.Group
	for range c.workers {
		group.Go(func() error {
			for c.processNext(ctx) {
			}
			return nil
		})
	}
	return group.Wait()
}

// shutDownAfter shuts the queue down when ctx ends, unless cancel is called before.
func (c *Controller) shutDownAfter(ctx context.Context) (cancel func() bool) {
	return context.AfterFunc(ctx, c.queue.ShutDown)
}

// processNext reconciles one key; false: the queue is shut down.
func (c *Controller) processNext(ctx context.Context) bool {
	key, over := c.queue.Get()
	if over {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	start := time.Now()
	next, err := c.reconcileSafely(ctx, key)
	result := c.schedule(ctx, key, next, err)
	if c.onDone != nil {
		c.onDone(result, time.Since(start))
	}
	return true
}

// reconcileSafely calls reconcile and turns a panic into an error: one broken object
// must not stop the others.
func (c *Controller) reconcileSafely(ctx context.Context, key Key) (next Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in loop %s: %v\n%s", c.name, p, debug.Stack())
		}
	}()
	return c.reconcile(ctx, key)
}

// schedule decides from the result of a reconciliation when the key is enqueued again.
// It returns the result for OnDone.
func (c *Controller) schedule(ctx context.Context, key Key, next Result, err error) string {
	var wait *reconcile.RequeueAfter
	var permanent *reconcile.Terminal
	result := "ok"
	switch {
	case err == nil:
		c.queue.Forget(key)
	case errors.As(err, &permanent):
		c.queue.Forget(key)
		result = "permanent"
	case errors.As(err, &wait):
		c.queue.Forget(key)
		next.After = wait.After
		result = "wait"
	case ctx.Err() != nil:
		return "error"
	default:
		c.queue.AddRateLimited(key)
		result = "error"
	}
	if next.After > 0 {
		c.queue.AddAfter(key, next.After)
	}
	if err != nil && c.onError != nil && !IsConflict(err) {
		c.onError(key, err)
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

func (p *priorityQueue) markFirst(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.items {
		if p.items[i].key == key {
			p.items[i].first = true
			heap.Fix(p.heap(), i)
			return
		}
	}
	p.marked[key] = true
}

// Touch is called when a key that waits already is added again.
func (p *priorityQueue) Touch(Key) {}

// Push is called when a key joins the queue.
func (p *priorityQueue) Push(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	heap.Push(p.heap(), ranked{key: key, first: p.marked[key], turn: p.count})
	delete(p.marked, key)
}

// Len returns how many keys wait.
func (p *priorityQueue) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}

// Pop removes and returns the next key.
func (p *priorityQueue) Pop() Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return heap.Pop(p.heap()).(ranked).key
}

func (p *priorityQueue) heap() *rankedHeap { return (*rankedHeap)(&p.items) }

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
