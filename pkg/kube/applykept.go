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

// ApplyKept is Apply for a kind whose CRD may be older. An API server refuses an apply
// with an unknown field completely; ApplyKept then sets the known fields. The result
// lacks the others.
func (s *Store[P]) ApplyKept(ctx context.Context, obj P) (P, error) {
	out, err := s.Apply(ctx, obj)
	if !refusesBody(err) {
		return out, err
	}
	kept, other := s.keptBody(ctx, obj)
	if other != nil || kept == nil {
		return out, err // an unknown field was not the cause
	}
	return s.apply(ctx, obj, kept)
}

// refusesBody reports whether an API server could not process the body of a request.
// For a field that is unknown to server-side apply it answers 500.
func refusesBody(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusInternalServerError || code == http.StatusBadRequest || code == http.StatusUnprocessableEntity
}

// keptBody returns the part of the body of an apply that the API server keeps; nil if
// it keeps all. A dry-run create of a copy of the object shows that.
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
	both := commonFields(want, have)
	if reflect.DeepEqual(want, both) {
		return nil, nil
	}
	return json.Marshal(both)
}

// commonFields returns the parts of want that have also has, under the same name with
// any value. It compares lists of the same length element by element; for lists of
// different lengths it returns have's list.
func commonFields(want, have any) any {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return want
		}
		out := map[string]any{}
		for name, value := range want {
			if there, ok := have[name]; ok {
				out[name] = commonFields(value, there)
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
			out[i] = commonFields(want[i], have[i])
		}
		return out
	}
	return want
}
