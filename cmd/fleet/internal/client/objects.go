package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// PauseOf is who has paused an object; nil where it is not paused.
func PauseOf(u *unstructured.Unstructured) *view.Pause {
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); !paused {
		return nil
	}
	p := view.PauseOf(u)
	return &p
}

// EverywhereOf are all objects of a kind that the user may list, within -n.
func (s *Session) EverywhereOf(ctx context.Context, k cli.Kind) ([]*unstructured.Unstructured, error) {
	qs, err := s.QueriesFor(ctx, k, "")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, q := range qs {
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
	}
	return out, nil
}

// HeldBecause is the condition of a protected object whose deletion the manager holds;
// nil where it does not.
func HeldBecause(u *unstructured.Unstructured) *fleet.Condition {
	b, err := Convert[struct {
		Status struct {
			Conditions []fleet.Condition `json:"conditions"`
		} `json:"status"`
	}](u)
	if err != nil {
		return nil
	}
	c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason != fleet.ReasonProtected {
		return nil // one with another reason may be about a change before
	}
	return c
}

var selfReviews = authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")

// UserName is the user's name as the API server knows it, or else as the
// kubeconfig calls it.
func (s *Session) UserName(ctx context.Context) string {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": selfReviews.GroupVersion().String(), "kind": "SelfSubjectReview",
	}}
	answer, err := s.API.Create(ctx, selfReviews, review)
	if err == nil {
		if name, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username"); name != "" {
			return name
		}
	}
	return s.User
}

// Present reads an object of the workspace that has to be there.
func (s *Session) Present(ctx context.Context, k cli.Kind, name string) (*unstructured.Unstructured, error) {
	u, err := s.API.Get(ctx, k.Resource(), s.Scope, name)
	if apierrors.IsNotFound(err) {
		return nil, s.notFoundError(ctx, k, name)
	}
	if err != nil {
		return nil, DescribeServerError(s.Server, err)
	}
	return u, nil
}

// AllPresent is an error if look finds one of several objects not to be there: then
// nothing is written. One alone is left to the command.
func AllPresent(ctx context.Context, refs []cli.ObjectRef, look func(context.Context, cli.ObjectRef) error) error {
	if len(refs) < 2 {
		return nil
	}
	var missing []error
	for _, ref := range refs {
		if err := look(ctx, ref); err != nil {
			missing = append(missing, err)
		}
	}
	err := errors.Join(missing...)
	if err != nil && len(missing) < len(refs) {
		return fmt.Errorf("nothing is done: %w", err)
	}
	return err
}

// Merge changes some fields of an object of the workspace.
func (s *Session) Merge(ctx context.Context, k cli.Kind, name string, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if _, err := s.API.Patch(ctx, k.Resource(), s.Scope, name, body); err != nil {
		return DescribeServerError(s.Server, err)
	}
	return nil
}

// ErrLeft says that not everything has gone in time.
var ErrLeft = errors.New("not everything is gone")
