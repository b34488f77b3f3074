package kube

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// NewListed returns a cache that lists once, when it runs: it has the objects of that
// time, and those that Put adds. Everything else is as in NewCache.
func NewListed[P Object](c *Client, w Watch, transform func(P)) *Cache[P] {
	k := kindFor[P](c)
	indexers := cache.Indexers{}
	if k.namespaced {
		indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
	}
	out := newCacheOf(k.gvk.Kind, cache.NewSharedIndexInformer(&lister{listable: k, watch: w}, newOf[P](), noResync, indexers), transform)
	out.listed = true
	return out
}

// Listed reports whether the cache was filled by one list and is not kept current.
func (c *Cache[P]) Listed() bool { return c.listed }

// Put replaces one object of a cache made by NewListed by a newer version, without
// calling handlers. It does nothing for other caches: their watch reports the object.
// The cache owns the object from then on.
func (c *Cache[P]) Put(obj P) {
	if !c.listed {
		return
	}
	if c.transform != nil {
		c.transform(obj)
	}
	obj.SetManagedFields(nil)
	if err := c.informer.GetIndexer().Update(obj); err != nil {
		panic(fmt.Sprintf("kube: put %s: %v", c.name, err)) // only a key that cannot be made
	}
}

// lister lists, and pretends to watch.
type lister struct {
	listable
	watch Watch
}

// List calls ListWithContext.
func (l *lister) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// ListWithContext lists the newest state.
func (l *lister) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	l.watch.tweak(&opts)
	opts.ResourceVersion = ""
	out := l.list.DeepCopyObject()
	return out, l.client.List(ctx, l.watch.Namespace, out, opts)
}

// Watch calls WatchWithContext.
func (l *lister) Watch(metav1.ListOptions) (watch.Interface, error) { return newEmptyWatch(), nil }

// WatchWithContext returns a watch that never sends an event. It sends no request.
func (l *lister) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return newEmptyWatch(), nil
}

// IsWatchListSemanticsUnSupported returns true: the watch does not send the initial
// state.
func (l *lister) IsWatchListSemanticsUnSupported() bool { return true }

// emptyWatch is a watch without events.
type emptyWatch struct {
	once   sync.Once
	events chan watch.Event
}

func newEmptyWatch() *emptyWatch { return &emptyWatch{events: make(chan watch.Event)} }

// Stop ends the watch.
func (e *emptyWatch) Stop() { e.once.Do(func() { close(e.events) }) }

// ResultChan returns the channel that Stop closes.
func (e *emptyWatch) ResultChan() <-chan watch.Event { return e.events }
