package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/rancher/lasso/pkg/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// pageSize is how many objects a list asks for at once.
const pageSize = 500

// A Store reads and writes the objects of one kind. Every call is one request
// (List: one per 500 objects); what it returns belongs to the caller.
//
// Errors name what was tried. A missing object is ErrGone.
type Store[P Object] struct {
	kind   kindInfo
	client *client.Client
	scheme *runtime.Scheme
	field  string
	more   func(pages int) error // reports whether a list may have another page
}

// StoreOf returns the store of one kind, for example StoreOf[*fleet.Bundle](c). It
// panics for a type that is not in the client's scheme, which is an error of the
// program.
func StoreOf[P Object](c *Client) *Store[P] {
	info, err := c.kindOf(newOf[P]())
	if err != nil {
		panic(fmt.Sprintf("kube: %v", err))
	}
	rc, err := c.restClient()
	if err != nil {
		panic(fmt.Sprintf("kube: client for %s: %v", info.gvk.Kind, err))
	}
	return &Store[P]{
		kind:   info,
		client: client.NewClient(info.gvr, info.gvk.Kind, info.namespaced, rc, 0),
		scheme: c.scheme,
		field:  c.cfg.FieldManager,
		more:   c.checkPages,
	}
}

// newOf returns an empty object of P's type.
func newOf[P Object]() P {
	var p P
	return reflect.New(reflect.TypeOf(p).Elem()).Interface().(P)
}

// Get reads one object.
func (s *Store[P]) Get(ctx context.Context, key Key) (P, error) {
	out := newOf[P]()
	err := s.client.Get(ctx, key.Namespace, key.Name, out, metav1.GetOptions{})
	return s.wrapResult("get", key, out, err)
}

// List reads all objects of a namespace that a label selector matches. An empty
// namespace means all namespaces, an empty selector all objects.
func (s *Store[P]) List(ctx context.Context, namespace, selector string) ([]P, error) {
	var out []P
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for page := 1; ; page++ {
		list, err := s.scheme.New(s.kind.gvk.GroupVersion().WithKind(s.kind.gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		if err := s.client.List(ctx, namespace, list, opts); err != nil {
			return nil, wrap("list", s.kind.gvr.Resource, Key{Namespace: namespace}, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			out = append(out, item.(P))
		}
		m, err := meta.ListAccessor(list)
		if err != nil || m.GetContinue() == "" {
			return out, err
		}
		if err := s.more(page); err != nil {
			return nil, wrap("list", s.kind.gvr.Resource, Key{Namespace: namespace}, err)
		}
		opts.Continue = m.GetContinue()
	}
}

// Create creates an object and returns it as stored.
func (s *Store[P]) Create(ctx context.Context, obj P) (P, error) {
	out := newOf[P]()
	s.setKind(obj)
	err := s.client.Create(ctx, obj.GetNamespace(), obj, out, metav1.CreateOptions{FieldManager: s.field})
	return s.wrapResult("create", KeyOf(obj), out, err)
}

// Update replaces an object, which must have the resourceVersion it was read with. It
// refuses Rancher's kinds.
func (s *Store[P]) Update(ctx context.Context, obj P) (P, error) {
	out := newOf[P]()
	if err := s.refusePartial("update", KeyOf(obj)); err != nil {
		return out, err
	}
	s.setKind(obj)
	err := s.client.Update(ctx, obj.GetNamespace(), obj, out, metav1.UpdateOptions{FieldManager: s.field})
	return s.wrapResult("update", KeyOf(obj), out, err)
}

// UpdateStatus replaces the status of an object, which must have the resourceVersion it
// was read with. It refuses Rancher's kinds.
func (s *Store[P]) UpdateStatus(ctx context.Context, obj P) (P, error) {
	out := newOf[P]()
	if err := s.refusePartial("update status of", KeyOf(obj)); err != nil {
		return out, err
	}
	s.setKind(obj)
	err := s.client.UpdateStatus(ctx, obj.GetNamespace(), obj, out, metav1.UpdateOptions{FieldManager: s.field})
	return s.wrapResult("update status of", KeyOf(obj), out, err)
}

// Patch sends the difference between old and changed outside of their status, as a JSON
// merge patch that the API server accepts only if the object still has old's
// resourceVersion. Without a difference it sends nothing, and returns old.
func (s *Store[P]) Patch(ctx context.Context, old, changed P) (P, error) {
	patch, err := difference(old, changed, false)
	return s.patch(ctx, old, patch, err)
}

// PatchStatus is Patch for the status only. The first status of an object is sent
// completely, with zero values: clients read them from the JSON.
func (s *Store[P]) PatchStatus(ctx context.Context, old, changed P) (P, error) {
	patch, err := difference(old, changed, true)
	return s.patch(ctx, old, patch, err, "status")
}

// patch sends a merge patch with old's resourceVersion. It returns err, the error of
// computing the patch, if that is not nil.
func (s *Store[P]) patch(ctx context.Context, old P, patch fields, err error, sub ...string) (P, error) {
	if err != nil || len(patch) == 0 {
		return old, err
	}
	md := map[string]any{}
	if text, ok := patch["metadata"]; ok {
		if err := json.Unmarshal(text, &md); err != nil {
			return old, err
		}
	}
	md["resourceVersion"] = old.GetResourceVersion()
	if patch["metadata"], err = json.Marshal(md); err != nil {
		return old, err
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return old, err
	}
	return s.PatchRaw(ctx, KeyOf(old), types.MergePatchType, data, sub...)
}

// PatchRaw sends a patch unchanged. It has no precondition except those in the patch.
func (s *Store[P]) PatchRaw(ctx context.Context, key Key, kind types.PatchType, data []byte, sub ...string) (P, error) {
	out := newOf[P]()
	err := s.client.Patch(ctx, key.Namespace, key.Name, kind, data, out, metav1.PatchOptions{FieldManager: s.field}, sub...)
	return s.wrapResult("patch", key, out, err)
}

// Apply sets the fields of obj by server-side apply, and takes them over from other
// managers. It removes fields that this manager has set before and that obj does not
// have.
func (s *Store[P]) Apply(ctx context.Context, obj P) (P, error) {
	s.setKind(obj)
	data, err := applyBody(obj)
	if err != nil {
		return newOf[P](), err
	}
	return s.apply(ctx, obj, data)
}

// apply sends the body of an apply.
func (s *Store[P]) apply(ctx context.Context, obj P, data []byte) (P, error) {
	out := newOf[P]()
	force := true
	opts := metav1.PatchOptions{FieldManager: s.field, Force: &force}
	err := s.client.Patch(ctx, obj.GetNamespace(), obj.GetName(), types.ApplyPatchType, data, out, opts)
	return s.wrapResult("apply", KeyOf(obj), out, err)
}

// A Precondition limits a deletion to the object that was meant. Empty fields
// ask for nothing.
type Precondition struct {
	UID             types.UID
	ResourceVersion string
}

// Exactly returns the precondition that an object still has its UID; its content may
// have changed.
func Exactly(o metav1.Object) Precondition { return Precondition{UID: o.GetUID()} }

// Delete deletes an object in the background. It returns nil for a missing object.
func (s *Store[P]) Delete(ctx context.Context, key Key, p Precondition) error {
	background := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{PropagationPolicy: &background}
	if p != (Precondition{}) {
		opts.Preconditions = &metav1.Preconditions{}
		if p.UID != "" {
			opts.Preconditions.UID = &p.UID
		}
		if p.ResourceVersion != "" {
			opts.Preconditions.ResourceVersion = &p.ResourceVersion
		}
	}
	err := wrap("delete", s.kind.gvk.Kind, key, s.client.Delete(ctx, key.Namespace, key.Name, opts))
	return IgnoreGone(err)
}

// wrapResult returns the result of a request, or its wrapped error.
func (s *Store[P]) wrapResult(verb string, key Key, out P, err error) (P, error) {
	if err != nil {
		var none P
		return none, wrap(verb, s.kind.gvk.Kind, key, err)
	}
	return out, nil
}

// setKind sets the kind of an object to send: decoded objects have none.
func (s *Store[P]) setKind(obj P) {
	obj.GetObjectKind().SetGroupVersionKind(s.kind.gvk)
}

// fields are the fields of an object, each as JSON.
type fields map[string]json.RawMessage

// difference returns the JSON merge patch from old to changed: of their status if
// status is true, else of everything but the status and server-managed metadata. It
// does not descend into equal parts.
func difference(old, changed any, status bool) (fields, error) {
	a, err := patchableFields(old, status)
	if err != nil {
		return nil, err
	}
	b, err := patchableFields(changed, status)
	if err != nil {
		return nil, err
	}
	if status && !bytes.Equal(a["status"], b["status"]) && hasNoStatus(old) {
		a = fields{"status": json.RawMessage("{}")}
	}
	for name, text := range a {
		if other, ok := b[name]; ok && bytes.Equal(text, other) {
			delete(a, name)
			delete(b, name)
		}
	}
	if len(a) == 0 && len(b) == 0 {
		return fields{}, nil
	}
	from, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("compare two versions: %w", err)
	}
	var patch fields
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	return patch, nil
}

// patchableFields returns the fields of an object that a patch may change.
func patchableFields(obj any, status bool) (fields, error) {
	if status {
		text, err := json.Marshal(statusOf(obj))
		return fields{"status": text}, err
	}
	m, err := fieldsOf(obj)
	if err != nil {
		return nil, err
	}
	delete(m, "status")
	delete(m, "kind")
	delete(m, "apiVersion")
	return m, nil
}

// statusOf returns the status of an object; nil for a kind without status. To encode a
// large object only for its status would cost more than the rest.
func statusOf(obj any) any {
	v := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	if !v.IsValid() {
		return nil
	}
	return v.Addr().Interface()
}

// hasNoStatus reports whether an object's status is empty.
func hasNoStatus(obj any) bool {
	status := reflect.ValueOf(statusOf(obj))
	return status.IsValid() && status.Elem().IsZero()
}

// applyBody returns an object without the fields that must not be applied.
func applyBody(obj any) ([]byte, error) {
	m, err := fieldsOf(obj)
	if err != nil {
		return nil, err
	}
	delete(m, "status")
	return json.Marshal(m)
}

// fieldsOf returns the fields of an object without server-managed metadata.
func fieldsOf(obj any) (fields, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var m fields
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	var md fields
	if err := json.Unmarshal(m["metadata"], &md); m["metadata"] != nil && err != nil {
		return nil, err
	}
	if md != nil {
		for _, f := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			delete(md, f)
		}
		if m["metadata"], err = json.Marshal(md); err != nil {
			return nil, err
		}
	}
	return m, nil
}
