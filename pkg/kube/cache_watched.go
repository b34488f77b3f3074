package kube

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// OnWatchedDeletion calls f for every object whose deletion the watch reported, with
// its last known state. It does not call f for an object that is missing in a later
// list: the reason is unknown.
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
