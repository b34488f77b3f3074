package kube

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// OnWatchedDeletion calls f for every object whose deletion the watch reported, with
// its last known state. An object that a later list does not have any more is not
// passed to f: it is unknown why it is missing.
func (c *Cache[P]) OnWatchedDeletion(f func(last P)) {
	handler, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(in any) {
			if obj, ok := in.(P); ok {
				f(obj)
			}
		},
	})
	if err != nil {
		panic(fmt.Sprintf("kube: handler of %s: %v", c.name, err))
	}
	c.handlers = append(c.handlers, handler)
}

// Version returns the resourceVersion up to which the cache knows the API server's
// objects; empty before the first list.
func (c *Cache[P]) Version() string { return c.informer.LastSyncResourceVersion() }
