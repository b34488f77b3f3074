package kube

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"github.com/rancher/lasso/pkg/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// noResync is longer than any process lives: a resync replays old events.
const noResync = 10000 * time.Hour

// A Watch says which objects of a kind a cache holds. Empty fields exclude
// nothing.
type Watch struct {
	Namespace string
	Labels    string // label selector
	Fields    string // field selector
}

// tweak sets the selectors of a list or watch.
func (w Watch) tweak(opts *metav1.ListOptions) {
	opts.LabelSelector, opts.FieldSelector = w.Labels, w.Fields
}

// A Cache holds the objects of one kind that a Watch selects, kept current by a watch.
// What it returns is shared: callers must not change it.
type Cache[P Object] struct {
	name      string
	informer  cache.SharedIndexInformer
	handlers  []cache.ResourceEventHandlerRegistration
	transform func(P)
	listed    bool        // see NewListed
	absent    atomic.Bool // see Optional
}

// NewCache returns a cache that is empty until it runs. transform, if not nil, is
// called once for each object before it is stored; it removes what is never read.
// managedFields are removed after it. Indexes and handlers must be added before the
// cache runs.
func NewCache[P Object](c *Client, w Watch, transform func(P)) *Cache[P] {
	k := kindFor[P](c)
	opts := &lassocache.Options{Namespace: w.Namespace, Resync: noResync, TweakList: w.tweak}
	return newCacheOf(k.gvk.Kind, lassocache.NewCache(newOf[P](), k.list, k.client, opts), transform)
}

// A listable is what it takes to list the objects of a kind.
type listable struct {
	kindInfo
	client *client.Client
	list   runtime.Object // an empty one
}

// kindFor returns what is needed to list and watch the kind of P. It panics for a kind
// that is not in the client's scheme, which is an error of the program.
func kindFor[P Object](c *Client) listable {
	info, err := c.kindOf(newOf[P]())
	if err != nil {
		panic(fmt.Sprintf("kube: %v", err))
	}
	rc, err := c.restClient()
	if err != nil {
		panic(fmt.Sprintf("kube: client for %s: %v", info.gvk.Kind, err))
	}
	list, err := c.scheme.New(info.gvk.GroupVersion().WithKind(info.gvk.Kind + "List"))
	if err != nil {
		panic(fmt.Sprintf("kube: %v", err))
	}
	return listable{kindInfo: info, client: client.NewClient(info.gvr, info.gvk.Kind, info.namespaced, rc, 0), list: list}
}

// NewMetaCache returns a cache of the metadata of a kind. As NewCache, it derives the
// resource from the kind without discovery: use it for built-in kinds and Fleet's own.
func NewMetaCache(c *Client, gvk schema.GroupVersionKind, w Watch, transform func(*metav1.PartialObjectMetadata)) *Cache[*metav1.PartialObjectMetadata] {
	cl, err := metadata.NewForConfig(c.cfg.REST)
	if err != nil {
		panic(fmt.Sprintf("kube: metadata client: %v", err))
	}
	obj, err := c.scheme.New(gvk)
	if err != nil {
		panic(fmt.Sprintf("kube: %v", err))
	}
	info, err := c.kindOf(obj)
	if err != nil {
		panic(fmt.Sprintf("kube: %v", err))
	}
	informer := metadatainformer.NewFilteredMetadataInformer(cl, info.gvr, w.Namespace, noResync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, w.tweak).Informer()
	return newCacheOf(gvk.Kind, informer, transform)
}

func newCacheOf[P Object](name string, informer cache.SharedIndexInformer, transform func(P)) *Cache[P] {
	err := informer.SetTransform(func(in any) (any, error) {
		if obj, ok := in.(P); ok {
			if transform != nil {
				transform(obj)
			}
			obj.SetManagedFields(nil)
		}
		return in, nil
	})
	if err != nil {
		panic(fmt.Sprintf("kube: transform of %s: %v", name, err))
	}
	return &Cache[P]{name: name, informer: informer, transform: transform}
}

// Index adds an index by the values that f finds in an object.
func (c *Cache[P]) Index(name string, f func(P) []string) {
	err := c.informer.AddIndexers(cache.Indexers{name: func(in any) ([]string, error) {
		return f(in.(P)), nil
	}})
	if err != nil {
		panic(fmt.Sprintf("kube: index %s of %s: %v", name, c.name, err))
	}
}

// OnChange calls f for every change, one at a time and in order. old is nil for a new
// object; changed is nil for a deleted one, and old is then its last known state. An
// object that was deleted and created again under the same name causes two calls, also
// if the watch missed the deletion. f must return quickly and must not change the
// objects.
func (c *Cache[P]) OnChange(f func(old, changed P)) {
	var none P
	handler, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(in any) { f(none, in.(P)) },
		UpdateFunc: func(was, is any) {
			old, changed := was.(P), is.(P)
			switch {
			case old.GetResourceVersion() == changed.GetResourceVersion():
			case old.GetUID() != changed.GetUID():
				f(old, none)
				f(none, changed)
			default:
				f(old, changed)
			}
		},
		DeleteFunc: func(in any) {
			if last, ok := in.(cache.DeletedFinalStateUnknown); ok {
				in = last.Obj
			}
			if obj, ok := in.(P); ok {
				f(obj, none)
			}
		},
	})
	if err != nil {
		panic(fmt.Sprintf("kube: handler of %s: %v", c.name, err))
	}
	c.handlers = append(c.handlers, handler)
}

// Optional makes the cache count as synced, and be empty, while the API server does not
// serve its kind because the CRD is missing. The cache is filled when the CRD comes. It must
// be called before the cache runs, and excludes OnError.
func (c *Cache[P]) Optional() {
	_ = c.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			c.absent.Store(true)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
}

// OnError calls f when a list or watch fails; the cache tries again with a growing
// delay.
func (c *Cache[P]) OnError(f func(error)) {
	_ = c.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { f(err) })
}

// Get returns one object.
func (c *Cache[P]) Get(key Key) (P, bool) {
	in, ok, err := c.informer.GetStore().GetByKey(key.String())
	if err != nil || !ok {
		var none P
		return none, false
	}
	return in.(P), true
}

// List returns all objects of a namespace, in no order; of all namespaces if namespace
// is empty.
func (c *Cache[P]) List(namespace string) []P {
	if namespace != "" {
		return c.ByIndex(cache.NamespaceIndex, namespace)
	}
	return convertAll[P](c.informer.GetStore().List())
}

// ByIndex returns all objects for which the index has the value, in no order.
func (c *Cache[P]) ByIndex(name, value string) []P {
	found, err := c.informer.GetIndexer().ByIndex(name, value)
	if err != nil {
		panic(fmt.Sprintf("kube: index %s of %s: %v", name, c.name, err))
	}
	return convertAll[P](found)
}

// convertAll converts the objects of an informer to P.
func convertAll[P Object](in []any) []P {
	out := make([]P, 0, len(in))
	for _, o := range in {
		out = append(out, o.(P))
	}
	return out
}

// HasSynced reports whether the first list has arrived and every handler has been
// called for all of its objects. For an Optional cache it is also true while the API server
// does not serve the kind.
func (c *Cache[P]) HasSynced() bool {
	if c.absent.Load() {
		return true
	}
	for _, h := range c.handlers {
		if !h.HasSynced() {
			return false
		}
	}
	return c.informer.HasSynced()
}

// Name returns the kind that the cache holds.
func (c *Cache[P]) Name() string { return c.name }

// Run fills the cache and keeps it current until ctx ends.
func (c *Cache[P]) Run(ctx context.Context) error {
	c.informer.Run(ctx.Done())
	return nil
}
