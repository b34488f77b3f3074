package client

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A Reading collects what an explanation is made of, as far as the user may
// read it. One cluster is read by name: nothing is listed that grows with the
// fleet.
type Reading struct {
	S      *Session
	Hidden []explain.Hidden
	Narrow []string // the workspaces that were searched for a name; empty: all, or that of -n

	Manager view.Manager
}

// Hide notes what is not the user's to see.
func (r *Reading) Hide(resource, namespace string) {
	h := explain.Hidden{Resource: resource, Namespace: namespace}
	if !slices.Contains(r.Hidden, h) {
		r.Hidden = append(r.Hidden, h)
	}
}

// Note says on stderr what was not seen, and whether the manager is silent.
func (r *Reading) Note() {
	r.S.Heard(r.Manager)
	if len(r.Hidden) == 0 {
		return
	}
	texts := make([]string, len(r.Hidden))
	for i, h := range r.Hidden {
		texts[i] = h.String()
	}
	r.S.Std.Note("this user may not see %s", strings.Join(texts, ", "))
}

// Get reads one object; nil where it is not there, or hidden.
func (r *Reading) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := r.S.API.Get(ctx, resource, namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		r.Hide(resource.Resource, namespace)
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return u, Reached(r.S.Server, err)
}

// Read reads one object as its type.
func Read[T any](ctx context.Context, r *Reading, resource schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := r.Get(ctx, resource, namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return As[T](u)
}

// List lists what a query selects; nothing where that is hidden, or the kind is
// not there.
func List[T any](ctx context.Context, r *Reading, q Query) ([]*T, error) {
	items, _, err := r.S.Listed(ctx, q)
	switch {
	case apierrors.IsForbidden(err):
		r.Hide(q.Resource.Resource, q.Namespace)
		return nil, nil
	case err != nil && UnknownResource(err):
		return nil, nil
	case err != nil:
		return nil, Reached(r.S.Server, err)
	}
	return AllAs[T](items)
}

// Named are the objects of a kind with a name, within -n. A user who may not list all
// namespaces gets those of the workspaces that can be found.
func (r *Reading) Named(ctx context.Context, k cli.Kind, name string) ([]*unstructured.Unstructured, error) {
	s := r.S
	spaces := []string{s.Scope}
	var cause error
	if s.Scope == "" {
		items, err := s.All(ctx, Query{Resource: k.Resource(), Fields: fields.OneTermEqualSelector("metadata.name", name).String()})
		if !apierrors.IsForbidden(err) {
			return items, err
		}
		spaces, cause = s.workspaces(ctx), err
	}
	var out []*unstructured.Unstructured
	var allowed []string
	for _, ns := range spaces {
		u, err := s.API.Get(ctx, k.Resource(), ns, name)
		switch {
		case err == nil:
			out, allowed = append(out, u), append(allowed, ns)
		case apierrors.IsNotFound(err):
			allowed = append(allowed, ns)
		case !apierrors.IsForbidden(err):
			return nil, Reached(s.Server, err)
		default:
			cause = err
		}
	}
	if len(allowed) == 0 {
		return nil, s.nowhere(k, spaces, cause)
	}
	if s.Scope == "" {
		r.Narrow = allowed
	}
	return out, nil
}
