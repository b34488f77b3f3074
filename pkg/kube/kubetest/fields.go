package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// scheme knows the built-in kinds.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
}()

// builtInFields knows the fields of the built-in kinds. To read that is work.
var builtInFields = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme) })

// fieldManager returns the manager of the managed fields of a resource. The fields of
// custom kinds are guessed from the objects: lists are atomic. client-go's
// field-managed object tracker, which does the same for typed objects, has no versions
// in its objects, no conflicts and no history; what it is built on is used here.
func (r *resource) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	if m := r.managers[subresource]; m != nil {
		return m, nil
	}
	newManager, types := managedfields.NewDefaultFieldManager, managedfields.NewDeducedTypeConverter()
	if r.Custom {
		newManager = managedfields.NewDefaultCRDFieldManager
	} else if r.Group != apiextensionsv1.GroupName && clientgoscheme.Scheme.Recognizes(r.GroupVersionKind) { // Helm adds apiextensions to that scheme
		types = builtInFields()
	}
	m, err := newManager(types, unconverted{}, unconverted{}, unconverted{}, r.GroupVersionKind, r.GroupVersion(), subresource, nil)
	if err != nil {
		return nil, fmt.Errorf("manage the fields of %s: %w", r.Kind.Kind, err)
	}
	r.managers[subresource] = m
	return m, nil
}

// unconverted converts and defaults nothing: each kind has one version.
type unconverted struct{}

// Default does nothing.
func (unconverted) Default(runtime.Object) {}

// New returns an empty object.
func (unconverted) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(kind)
	return out, nil
}

// ConvertToVersion returns the object.
func (unconverted) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// Convert is not called.
func (unconverted) Convert(_, _, _ any) error { return fmt.Errorf("kubetest converts nothing") }

// ConvertFieldLabel returns what it is given.
func (unconverted) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// manage records in an object's managed fields which client has set which fields.
func (c *call) manage(live, next *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	m, err := c.res.fieldManager(c.Subresource)
	if err != nil {
		return nil, err
	}
	if live == nil {
		live = c.empty()
	}
	out, err := m.Update(live.DeepCopy(), next, c.manager)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out.(*unstructured.Unstructured), nil
}

// merge applies an object to the existing one.
func (c *call) merge(live, applied *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	m, err := c.res.fieldManager(c.Subresource)
	if err != nil {
		return nil, err
	}
	if live == nil {
		live = c.empty()
	}
	out, err := m.Apply(live.DeepCopy(), applied, c.manager, c.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return out.(*unstructured.Unstructured), nil
}

// empty returns an object of the kind with only its name.
func (c *call) empty() *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(c.res.GroupVersionKind)
	out.SetName(c.Name)
	if c.Namespace != "" {
		out.SetNamespace(c.Namespace)
	}
	return out
}

// same reports whether two versions of an object differ only in times of managed fields
// and in the resourceVersion: API servers do not write such a version.
func same(a, b *unstructured.Unstructured) (bool, error) {
	x, err := json.Marshal(timeless(a))
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(timeless(b))
	return string(x) == string(y), err
}

func timeless(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	md, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	md = maps.Clone(md)
	delete(md, "resourceVersion")
	out["metadata"] = md
	entries, _ := md["managedFields"].([]any)
	bare := make([]any, 0, len(entries))
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok {
			entry = maps.Clone(entry)
			delete(entry, "time")
			e = entry
		}
		bare = append(bare, e)
	}
	md["managedFields"] = bare
	return out
}
