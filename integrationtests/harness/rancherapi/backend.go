package rancherapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A Backend holds objects of Rancher's kinds, by the plural of their resource.
type Backend interface {
	All(plural string) ([]*unstructured.Unstructured, error)
	Make(plural string, o *unstructured.Unstructured) error
	Change(plural, name string, merge map[string]any) (*unstructured.Unstructured, error)
}

// Memory is a Backend in memory. Objects are given as JSON or YAML would have them.
type Memory struct {
	mu      sync.Mutex
	objects map[string]map[string]*unstructured.Unstructured
}

// NewMemory holds some objects.
func NewMemory(objects map[string][]*unstructured.Unstructured) *Memory {
	m := &Memory{objects: map[string]map[string]*unstructured.Unstructured{}}
	for plural, list := range objects {
		for _, o := range list {
			_ = m.Make(plural, o) // the last of a name counts
		}
	}
	return m
}

// All are all objects of a resource, by name.
func (m *Memory) All(plural string) ([]*unstructured.Unstructured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, o := range m.objects[plural] {
		out = append(out, o.DeepCopy())
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// Make adds an object.
func (m *Memory) Make(plural string, o *unstructured.Unstructured) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[plural] == nil {
		m.objects[plural] = map[string]*unstructured.Unstructured{}
	}
	if m.objects[plural][o.GetName()] != nil {
		return apierrors.NewAlreadyExists(resource(plural).GroupResource(), o.GetName())
	}
	m.objects[plural][o.GetName()] = o.DeepCopy()
	return nil
}

// Change changes fields of an object.
func (m *Memory) Change(plural, name string, merge map[string]any) (*unstructured.Unstructured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[plural][name]
	if o == nil {
		return nil, apierrors.NewNotFound(resource(plural).GroupResource(), name)
	}
	before, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(merge)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := changed.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	m.objects[plural][name] = changed
	return changed.DeepCopy(), nil
}

func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: plural}
}

// Objects is a Backend in an API server: what Rancher does with its own account.
type Objects struct{ Client dynamic.Interface }

// All are all objects of a resource.
func (c Objects) All(plural string) ([]*unstructured.Unstructured, error) {
	list, err := c.Client.Resource(resource(plural)).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// Make adds an object.
func (c Objects) Make(plural string, o *unstructured.Unstructured) error {
	made, err := c.Client.Resource(resource(plural)).Create(context.Background(), o, metav1.CreateOptions{})
	if err == nil {
		o.Object = made.Object
	}
	return err
}

// Change changes fields of an object.
func (c Objects) Change(plural, name string, merge map[string]any) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(merge)
	if err != nil {
		return nil, err
	}
	return c.Client.Resource(resource(plural)).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{})
}
