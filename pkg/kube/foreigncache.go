package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// NewForeignCache returns a cache of the metadata of a kind of another API, for example
// of another project's CRD. While the resource is not served, it is empty and tries
// again.
func NewForeignCache(c *Client, resource schema.GroupVersionResource, w Watch, transform func(*metav1.PartialObjectMetadata)) *Cache[*metav1.PartialObjectMetadata] {
	cl, err := metadata.NewForConfig(c.cfg.REST)
	if err != nil {
		panic(fmt.Sprintf("kube: metadata client: %v", err))
	}
	informer := metadatainformer.NewFilteredMetadataInformer(cl, resource, w.Namespace, noResync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, w.tweak).Informer()
	return newCacheOf(resource.GroupResource().String(), informer, transform)
}
