package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Each calls f for each object that w selects, and returns f's first error. It reads
// size objects at a time and keeps none. If the list takes so long that its snapshot
// expires, Each returns an error after f has got a part of the objects.
func (s *Store[P]) Each(ctx context.Context, w Watch, size int64, f func(P) error) error {
	opts := metav1.ListOptions{Limit: size}
	w.tweak(&opts)
	for page := 1; ; page++ {
		list, err := s.scheme.New(s.kind.gvk.GroupVersion().WithKind(s.kind.gvk.Kind + "List"))
		if err != nil {
			return err
		}
		if err := s.client.List(ctx, w.Namespace, list, opts); err != nil {
			return wrap("list", s.kind.gvr.Resource, Key{Namespace: w.Namespace}, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := f(item.(P)); err != nil {
				return err
			}
		}
		m, err := meta.ListAccessor(list)
		if err != nil || m.GetContinue() == "" {
			return err
		}
		if err := s.more(page); err != nil {
			return wrap("list", s.kind.gvr.Resource, Key{Namespace: w.Namespace}, err)
		}
		opts.Continue = m.GetContinue()
	}
}

// ListMeta reads only the metadata of all objects of a kind that w selects.
func (c *Client) ListMeta(ctx context.Context, gvk schema.GroupVersionKind, w Watch) ([]*metav1.PartialObjectMetadata, error) {
	cl, info, err := c.metadataOf(gvk)
	if err != nil {
		return nil, err
	}
	var out []*metav1.PartialObjectMetadata
	opts := metav1.ListOptions{Limit: pageSize}
	w.tweak(&opts)
	for page := 1; ; page++ {
		list, err := cl.Resource(info.gvr).Namespace(w.Namespace).List(ctx, opts)
		if err != nil {
			return nil, wrap("list", info.gvr.Resource, Key{Namespace: w.Namespace}, err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		if list.Continue == "" {
			return out, nil
		}
		if err := c.checkPages(page); err != nil {
			return nil, wrap("list", info.gvr.Resource, Key{Namespace: w.Namespace}, err)
		}
		opts.Continue = list.Continue
	}
}
