package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// GetMeta reads only the metadata of one object of a kind in the scheme. A missing
// object is ErrGone.
func (c *Client) GetMeta(ctx context.Context, gvk schema.GroupVersionKind, key Key) (*metav1.PartialObjectMetadata, error) {
	cl, info, err := c.metadataOf(gvk)
	if err != nil {
		return nil, err
	}
	var r metadata.ResourceInterface = cl.Resource(info.gvr)
	if info.namespaced {
		r = cl.Resource(info.gvr).Namespace(key.Namespace)
	}
	out, err := r.Get(ctx, key.Name, metav1.GetOptions{})
	return out, wrap("get", info.gvr.Resource, key, err)
}

// metadataOf returns the client for metadata, and the resource of a kind in the scheme.
func (c *Client) metadataOf(gvk schema.GroupVersionKind) (metadata.Interface, kindInfo, error) {
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, kindInfo{}, err
	}
	info, err := c.kindOf(obj)
	if err != nil {
		return nil, kindInfo{}, err
	}
	c.metaOnce.Do(func() { c.meta, c.metaErr = metadata.NewForConfig(c.cfg.REST) })
	return c.meta, info, c.metaErr
}

// NamespaceLifetime asks the API server, not a cache, since when a namespace exists and
// whether it is being deleted. The deletion of a namespace begins before that of its
// objects, so that the answer after the deletion of an object is conclusive.
func (c *Client) NamespaceLifetime(ctx context.Context, name string) (withdrawal.Lifetime, error) {
	return c.lifetime(ctx, fmt.Sprintf("namespace %q", name), corev1.SchemeGroupVersion.WithKind("Namespace"), name)
}

// KindLifetime is NamespaceLifetime for one of Fleet's kinds, such as "Bundle".
func (c *Client) KindLifetime(ctx context.Context, kind string) (withdrawal.Lifetime, error) {
	plural, _, ok := fleet.Resource(kind)
	if !ok {
		return withdrawal.Lifetime{}, fmt.Errorf("kind %q is not one of Fleet's", kind)
	}
	name := plural + "." + fleet.Group
	return c.lifetime(ctx, fmt.Sprintf("kind %q", name), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), name)
}

// lifetime reads since when an object exists; words name it in errors.
func (c *Client) lifetime(ctx context.Context, words string, gvk schema.GroupVersionKind, name string) (withdrawal.Lifetime, error) {
	l := withdrawal.Lifetime{Name: words}
	m, err := c.GetMeta(ctx, gvk, Key{Name: name})
	switch {
	case IsGone(err):
		l.Absent = true
		return l, nil
	case IsForbidden(err):
		return l, fmt.Errorf("look whether %s is being deleted, without which nothing is removed: %w (upgrade the chart, which has this right)", words, err)
	case err != nil:
		return l, fmt.Errorf("look whether %s is being deleted: %w", words, err)
	}
	l.Created = m.CreationTimestamp.Time
	if m.DeletionTimestamp != nil {
		l.Deleted = m.DeletionTimestamp.Time
	}
	return l, nil
}
