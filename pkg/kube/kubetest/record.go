package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A record is one version of one object. It does not change.
type record struct {
	*unstructured.Unstructured
	json []byte
	path string // namespace/name, by which lists are sorted
}

func newRecord(obj *unstructured.Unstructured) (*record, error) {
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kube.KeyOf(obj), err)
	}
	return &record{obj, text, obj.GetNamespace() + "/" + obj.GetName()}, nil
}

// text returns the record as JSON, apiVersion first as API servers write it; partial:
// only its metadata.
func (r *record) text(partial bool) ([]byte, error) {
	if !partial {
		return r.json, nil
	}
	return json.Marshal(map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": r.Object["metadata"],
	})
}

// item returns the record as an item of a list. API servers omit the kind of built-in
// objects there.
func (r *record) item(k Kind, partial bool) (json.RawMessage, error) {
	if partial || k.Custom {
		return r.text(partial)
	}
	bare := maps.Clone(r.Object)
	delete(bare, "apiVersion")
	delete(bare, "kind")
	return json.Marshal(bare)
}

// at returns the record with another resourceVersion.
func (r *record) at(version int64) (*record, error) {
	obj := r.DeepCopy()
	obj.SetResourceVersion(strconv.FormatInt(version, 10))
	return newRecord(obj)
}

// A change is one step of one object: was is nil for one that is new, is nil for one
// that is gone.
type change struct {
	version int64
	was, is *record
}

// event returns the event of a change for a watch that selects objects.
func (c change) event(selects func(*record) bool) (watch.EventType, *record, error) {
	before, after := c.was != nil && selects(c.was), c.is != nil && selects(c.is)
	switch {
	case before && after:
		return watch.Modified, c.is, nil
	case after:
		return watch.Added, c.is, nil
	case before:
		last, err := c.was.at(c.version)
		return watch.Deleted, last, err
	}
	return "", nil, nil
}

// live returns the object that a call names.
func (c *call) live() (*record, error) {
	r := c.res.objects[kube.Key{Namespace: c.Namespace, Name: c.Name}]
	if r == nil {
		return nil, apierrors.NewNotFound(c.res.resource().GroupResource(), c.Name)
	}
	return r, nil
}

// commit stores obj as the next version of an object; gone deletes it. The caller holds
// s.mu.
func (s *Server) commit(res *resource, obj *unstructured.Unstructured, gone bool) (*record, error) {
	obj.SetResourceVersion(strconv.FormatInt(s.version+1, 10))
	next, err := newRecord(obj)
	if err != nil {
		return nil, err
	}
	s.version++
	key := kube.KeyOf(obj)
	step := change{version: s.version, was: res.objects[key], is: next}
	res.objects[key] = next
	if gone {
		step.was, step.is = next, nil
		delete(res.objects, key)
	}
	res.log = append(res.log, step)
	res.report()
	if res.isDefinition() {
		return next, definitions{s}.define(next, gone)
	}
	return next, nil
}
