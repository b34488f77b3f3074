package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/summary"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// unknownKindDelay is how long a kind that the API server does not serve is
// waited for before it is asked about again.
const unknownKindDelay = 5 * time.Second

// Live reads objects of any kind as they are, without a typed scheme.
type Live struct {
	cfg      *rest.Config
	objects  dynamic.Interface
	metadata metadata.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper

	mu    sync.Mutex
	asked time.Time // when the mapper was last emptied
}

// NewLive returns a reader of live objects. It uses discovery on first use, and again
// at most every 5 s while a kind is unknown.
func NewLive(c *Client) (*Live, error) {
	cfg := c.REST()
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("live objects: %w", err)
	}
	md, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("live metadata: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	return &Live{cfg: cfg, objects: objects, metadata: md, mapper: mapper}, nil
}

// Get reads one object. A missing object is ErrGone; a kind that the server does not
// serve is a reconcile.RequeueAfter.
func (l *Live) Get(ctx context.Context, gvk schema.GroupVersionKind, key Key) (*unstructured.Unstructured, error) {
	return l.get(ctx, l.objects, gvk, key)
}

func (l *Live) get(ctx context.Context, objects dynamic.Interface, gvk schema.GroupVersionKind, key Key) (*unstructured.Unstructured, error) {
	mapping, err := l.mapping(gvk)
	if err != nil {
		return nil, err
	}
	var r dynamic.ResourceInterface = objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		r = objects.Resource(mapping.Resource).Namespace(key.Namespace)
	}
	obj, err := r.Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, wrap("get", gvk.Kind, key, err)
	}
	return obj, nil
}

// ScopeOf reports whether a kind is namespaced. The error for a kind that the server
// does not serve is a reconcile.RequeueAfter.
func (l *Live) ScopeOf(_ context.Context, gvk schema.GroupVersionKind) (namespaced bool, err error) {
	mapping, err := l.mapping(gvk)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// mapping returns the resource of a kind, and asks discovery again if the kind is
// unknown.
func (l *Live) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && l.resetMapper() {
		mapping, err = l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, reconcile.RequeueError("UnknownKind", unknownKindDelay,
			fmt.Errorf("kind %s is not served by this cluster (its CRD is missing)", gvk.GroupKind()))
	}
	if err != nil {
		return nil, fmt.Errorf("look up kind %s: %w", gvk.GroupKind(), err)
	}
	return mapping, nil
}

// resetMapper empties the discovery cache, unless that was done a moment ago.
func (l *Live) resetMapper() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) < unknownKindDelay {
		return false
	}
	l.asked = time.Now()
	l.mapper.Reset()
	return true
}

// WatchMeta watches the metadata of all objects of a kind with a label, in all
// namespaces, and calls f for each change, one at a time. old is nil for a new object;
// changed is nil for an object that was deleted or has lost its label. stop or the end
// of ctx ends the watch. The metadata is stripped by drift.Stripped.
func (l *Live) WatchMeta(ctx context.Context, gvk schema.GroupVersionKind, selector string,
	f func(old, changed *metav1.PartialObjectMetadata),
) (stop func(), err error) {
	mapping, err := l.mapping(gvk)
	if err != nil {
		return nil, err
	}
	w := Watch{Labels: selector}
	informer := metadatainformer.NewFilteredMetadataInformer(l.metadata, mapping.Resource, "", noResync,
		cache.Indexers{}, w.tweak).Informer()
	if err := informer.SetTransform(stripped); err != nil {
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	c := &Cache[*metav1.PartialObjectMetadata]{name: gvk.Kind, informer: informer}
	c.OnChange(f)
	ctx, cancel := context.WithCancel(ctx)
	go informer.Run(ctx.Done())
	return cancel, nil
}

// stripped strips metadata before the cache stores it.
func stripped(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		drift.Stripped(o)
	}
	return in, nil
}

// CRDOf reads the CRD of a kind. A kind without a CRD is ErrGone.
func (l *Live) CRDOf(ctx context.Context, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	mapping, err := l.mapping(gvk)
	if err != nil {
		return nil, err
	}
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	return l.Get(ctx, crd, Key{Name: mapping.Resource.Resource + "." + mapping.Resource.Group})
}

// A Summary is what Rancher shows of an object: its state in one word, whether
// that is an error or on its way, and texts.
type Summary struct {
	State         string
	Error         bool
	Transitioning bool
	Message       []string
}

// Summarize returns the state of a live object by the rules of Rancher.
func Summarize(obj *unstructured.Unstructured) Summary {
	s := summary.Summarize(obj)
	return Summary{State: s.State, Error: s.Error, Transitioning: s.Transitioning, Message: s.Message}
}
