package client

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// MaxGets is how many objects are read one by one; for more all are listed.
const MaxGets = 5

// FetchAs reads objects by their keys. Those that are not there, or not for this user,
// are left out.
func FetchAs[T any](ctx context.Context, s *Session, k cli.Kind, keys []view.Key) (map[view.Key]*T, error) {
	wanted := map[view.Key]bool{}
	namespaces := map[string]bool{}
	for _, key := range keys {
		wanted[key], namespaces[key.Namespace] = true, true
	}
	out := map[view.Key]*T{}
	if len(wanted) > MaxGets {
		for namespace := range namespaces {
			if err := fetchListed(ctx, s, Query{Resource: k.Resource(), Namespace: namespace}, wanted, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for key := range wanted {
		o, err := GetAs[T](ctx, s, k.Resource(), key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out[key] = o
		}
	}
	return out, nil
}

// fetchListed adds those objects of a list that wanted names; none where the user may
// not list them.
func fetchListed[T any](ctx context.Context, s *Session, q Query, wanted map[view.Key]bool, out map[view.Key]*T) error {
	items, _, err := s.Listed(ctx, q)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return DescribeServerError(s.Server, err)
	}
	for _, u := range items {
		key := view.Key{Namespace: u.GetNamespace(), Name: u.GetName()}
		if !wanted[key] {
			continue
		}
		if out[key], err = Convert[T](u); err != nil {
			return err
		}
	}
	return nil
}

// LimitsAs lists the GitRepoRestrictions or Policies of a namespace; of all namespaces if it
// is empty. For objects that the user may not list it returns nothing and prints a warning. A
// server that does not know the kind has none.
func LimitsAs[T any](ctx context.Context, s *Session, kind, namespace string) ([]*T, error) {
	plural, _, _ := fleet.Resource(kind)
	items, _, err := s.Listed(ctx, Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: namespace})
	switch {
	case UnknownResource(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		s.Std.Note("warning: not yours to see: %s in %s; what they forbid or change is not shown here", plural, cmp.Or(namespace, "all namespaces"))
		return nil, nil
	case err != nil:
		return nil, DescribeServerError(s.Server, err)
	}
	return AllAs[T](items)
}

// EveryAs lists what one query finds. For objects that the user may not list it returns
// nothing and prints a warning.
func EveryAs[T any](ctx context.Context, s *Session, q Query) ([]*T, error) {
	items, _, err := s.Listed(ctx, q)
	if apierrors.IsForbidden(err) {
		s.Std.Note("warning: not yours to see: %s in %s; clusters of other namespaces may be missing here", q.Resource.Resource, cmp.Or(q.Namespace, "all namespaces"))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return AllAs[T](items)
}
