package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyKept is Apply for a kind that may be that of an older chart. An API server
// refuses to apply a field that it does not know, and with it all others; here they
// are set without it. What was left out does not stand in the result.
func (s *Store[P]) ApplyKept(ctx context.Context, obj P) (P, error) {
	out, err := s.Apply(ctx, obj)
	if err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
		return out, err
	}
	data, err := s.keptBody(ctx, obj)
	if err != nil {
		return out, err
	}
	return s.apply(ctx, obj, data)
}

// keptBody is the body of an apply with what the API server keeps of an object: what
// is left of it when another one like it is created for a trial.
func (s *Store[P]) keptBody(ctx context.Context, obj P) ([]byte, error) {
	trial, ok := obj.DeepCopyObject().(P)
	if !ok {
		return nil, fmt.Errorf("apply %s: the copy of a %T is another kind", KeyOf(obj), obj)
	}
	trial.SetName("")
	trial.SetGenerateName("trial-")
	kept := newOf[P]()
	opts := metav1.CreateOptions{FieldManager: s.field, DryRun: []string{metav1.DryRunAll}}
	if err := s.client.Create(ctx, obj.GetNamespace(), trial, kept, opts); err != nil {
		_, err = s.result("try", KeyOf(obj), kept, err)
		return nil, err
	}
	kept.SetName(obj.GetName())
	kept.SetGenerateName("")
	s.setKind(kept)
	want, err := jsonOf(applyBody(obj))
	if err != nil {
		return nil, err
	}
	have, err := jsonOf(applyBody(kept))
	if err != nil {
		return nil, err
	}
	return json.Marshal(common(want, have))
}

func jsonOf(data []byte, err error) (out any, _ error) {
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(data, &out)
}

// common is what stands in want and, under the same name, in have too, whatever its
// value there. Lists of the same length are compared element by element.
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
		if !ok || len(have) != len(want) {
			return want
		}
		out := make([]any, len(want))
		for i := range want {
			out[i] = common(want[i], have[i])
		}
		return out
	}
	return want
}
