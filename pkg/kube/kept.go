package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyKept is Apply for a kind that may be that of an older chart. An API server
// refuses an apply with a field that it does not know, and sets no other field.
// ApplyKept sets the others without it. The result lacks what was left out.
func (s *Store[P]) ApplyKept(ctx context.Context, obj P) (P, error) {
	out, err := s.Apply(ctx, obj)
	if !refusesBody(err) {
		return out, err
	}
	kept, other := s.keptBody(ctx, obj)
	if other != nil || kept == nil {
		return out, err // that was not why
	}
	return s.apply(ctx, obj, kept)
}

// refusesBody reports whether an API server could not do anything with what it was sent.
// For a field that is unknown to server-side apply it answers 500.
func refusesBody(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusInternalServerError || code == http.StatusBadRequest || code == http.StatusUnprocessableEntity
}

// keptBody returns the part of the body of an apply that the API server keeps, as a
// dry-run create of a copy of the object shows it. It is nil if the server keeps all of
// it.
func (s *Store[P]) keptBody(ctx context.Context, obj P) ([]byte, error) {
	body, err := applyBody(obj)
	if err != nil {
		return nil, err
	}
	trial, ok := obj.DeepCopyObject().(P)
	if !ok {
		return nil, fmt.Errorf("apply %s: the copy of a %T is another kind", KeyOf(obj), obj)
	}
	trial.SetName("")
	trial.SetGenerateName("trial-")
	kept := newOf[P]()
	opts := metav1.CreateOptions{FieldManager: s.field, DryRun: []string{metav1.DryRunAll}}
	if err := s.client.Create(ctx, obj.GetNamespace(), trial, kept, opts); err != nil {
		return nil, err
	}
	s.setKind(kept)
	left, err := applyBody(kept)
	if err != nil {
		return nil, err
	}
	var want, have any
	if err := errors.Join(json.Unmarshal(body, &want), json.Unmarshal(left, &have)); err != nil {
		return nil, err
	}
	both := common(want, have)
	if reflect.DeepEqual(want, both) {
		return nil, nil
	}
	return json.Marshal(both)
}

// common returns the parts of want that have also has, under the same name and with any
// value. Lists of the same length are compared element by element; a list of another
// length is that of have.
func common(want, have any) any {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return want
		}
		out := map[string]any{}
		for name, value := range want {
			if there, ok := have[name]; ok {
				out[name] = common(value, there)
			}
		}
		return out
	case []any:
		have, ok := have.([]any)
		if !ok {
			return want
		}
		if len(have) != len(want) {
			return have
		}
		out := make([]any, len(want))
		for i := range want {
			out[i] = common(want[i], have[i])
		}
		return out
	}
	return want
}
