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

// A ExplainReader collects what an explanation is made of, as far as the user may
// read it. One cluster is read by name: nothing is listed that grows with the
// fleet.
type ExplainReader struct {
	S      *Session
	Hidden []explain.Hidden
	Narrow []string // the workspaces that were searched for a name; empty: all, or that of -n

	Manager view.Manager
}

// RecordHidden notes what is not the user's to see.
func (r *ExplainReader) RecordHidden(resource, namespace string) {
	h := explain.Hidden{Resource: resource, Namespace: namespace}
	if !slices.Contains(r.Hidden, h) {
		r.Hidden = append(r.Hidden, h)
	}
}

// PrintNotes says on stderr what was not seen, and whether the manager is silent.
func (r *ExplainReader) PrintNotes() {
	r.S.NoteSilentManager(r.Manager)
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
func (r *ExplainReader) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := r.S.API.Get(ctx, resource, namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		r.RecordHidden(resource.Resource, namespace)
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return u, DescribeServerError(r.S.Server, err)
}

// Read reads one object as its type.
func Read[T any](ctx context.Context, r *ExplainReader, resource schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := r.Get(ctx, resource, namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return Convert[T](u)
}

// List lists what a query selects; nothing where that is hidden, or the kind is
// not there.
func List[T any](ctx context.Context, r *ExplainReader, q Query) ([]*T, error) {
	items, _, err := r.S.Listed(ctx, q)
	switch {
	case apierrors.IsForbidden(err):
		r.RecordHidden(q.Resource.Resource, q.Namespace)
		return nil, nil
	case err != nil && UnknownResource(err):
		return nil, nil
	case err != nil:
		return nil, DescribeServerError(r.S.Server, err)
	}
	return AllAs[T](items)
}

// ListNamed are the objects of a kind with a name, within -n. A user who may not list all
// namespaces gets those of the workspaces that can be found.
func (r *ExplainReader) ListNamed(ctx context.Context, k cli.Kind, name string) ([]*unstructured.Unstructured, error) {
	s := r.S
	spaces := []string{s.Scope}
	var cause error
	if s.Scope == "" {
		items, err := s.ListAll(ctx, Query{Resource: k.Resource(), Fields: fields.OneTermEqualSelector("metadata.name", name).String()})
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
			return nil, DescribeServerError(s.Server, err)
		default:
			cause = err
		}
	}
	if len(allowed) == 0 {
		return nil, s.cannotListError(k, spaces, cause)
	}
	if s.Scope == "" {
		r.Narrow = allowed
	}
	return out, nil
}
