package kubetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// create creates an object. The caller holds s.mu.
func (h handler) create(c *call) (*record, error) {
	obj, err := h.object(c)
	if err != nil {
		return nil, err
	}
	if obj.GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created") // 500, as API servers say
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		h.made.names++
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), h.made.names))
		if err := c.res.defaults(obj); err != nil {
			return nil, err
		}
	}
	if obj.GetName() == "" {
		return nil, c.invalid(field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
	}
	c.Name = obj.GetName()
	if _, err := c.live(); err == nil {
		return nil, apierrors.NewAlreadyExists(c.res.resource().GroupResource(), c.Name)
	}
	if err := h.admit(c); err != nil {
		return nil, err
	}
	if err := c.validate(nil, obj); err != nil {
		return nil, err
	}
	h.begin(c.res, obj)
	if obj, err = c.manage(nil, obj); err != nil {
		return nil, err
	}
	return h.write(c, obj)
}

// begin sets the fields that the server sets in a new object, and removes those that it
// ignores.
func (h handler) begin(res *resource, obj *unstructured.Unstructured) {
	h.made.uids++
	obj.SetUID(types.UID(fmt.Sprintf("%s-0000-4000-8000-%012d", h.made.mark, h.made.uids)))
	obj.SetCreationTimestamp(now())
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", name)
	}
	if res.Generation {
		obj.SetGeneration(1)
	}
	if res.Status {
		delete(obj.Object, "status")
	}
	if res.isDefinition() {
		established(obj)
	}
	if res.isNamespace() {
		obj.Object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
		obj.Object["status"] = map[string]any{"phase": "Active"}
	}
}

func (r *resource) isNamespace() bool { return r.Group == "" && r.Kind.Kind == "Namespace" }

// now is the time in the precision of the API.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// admit refuses to create an object in a namespace that does not exist or is being
// deleted.
func (h handler) admit(c *call) error {
	if err := c.refuseNew(); err != nil {
		return err
	}
	if !c.res.Namespaced {
		return nil
	}
	namespaces := schema.GroupResource{Resource: "namespaces"}
	ns := h.resources[namespaces.WithVersion("v1")].objects[kube.Key{Name: c.Namespace}]
	if ns == nil {
		return apierrors.NewNotFound(namespaces, c.Namespace)
	}
	if ns.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(c.res.resource().GroupResource(), c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace), Field: "metadata.namespace",
	})
	return err
}

func (c *call) invalid(list ...*field.Error) error {
	return apierrors.NewInvalid(c.res.GroupKind(), c.Name, list)
}

// update replaces an object, or its status. The caller holds s.mu.
func (h handler) update(c *call) (*record, error) {
	obj, err := h.object(c)
	if err != nil {
		return nil, err
	}
	if obj.GetName() != c.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	live, err := c.live()
	if err != nil {
		return nil, err
	}
	if obj.GetResourceVersion() == "" && (c.res.Custom || c.res.Kind.Kind == "Lease") {
		return nil, c.invalid(field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"))
	}
	if err := c.current(live, obj); err != nil {
		return nil, err
	}
	return h.replace(c, live, obj, func(next *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.manage(live.Unstructured, next)
	})
}

// current returns an error for an object that was read before the last write, or that
// is another object of the same name.
func (c *call) current(live *record, obj *unstructured.Unstructured) error {
	gr := c.res.resource().GroupResource()
	if uid := obj.GetUID(); uid != "" && uid != live.GetUID() {
		return apierrors.NewConflict(gr, c.Name, fmt.Errorf("the UID in the precondition (%s) is not that of the object (%s)", uid, live.GetUID()))
	}
	if v := obj.GetResourceVersion(); v != "" && v != live.GetResourceVersion() {
		return apierrors.NewConflict(gr, c.Name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// replace stores the next version of an object. manage records which client has set
// which fields.
func (h handler) replace(c *call, live *record, obj *unstructured.Unstructured,
	manage func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) (*record, error) {
	next, err := c.merged(live.Unstructured, obj)
	if err != nil {
		return nil, err
	}
	if err := c.validate(live.Unstructured, next); err != nil {
		return nil, err
	}
	if next, err = manage(next); err != nil {
		return nil, err
	}
	unchanged, err := same(live.Unstructured, next)
	if err != nil || unchanged {
		return live, err
	}
	return h.write(c, next)
}

// merged returns obj with the fields that a client cannot change from the live object.
func (c *call) merged(live, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	status := live.Object["status"]
	if c.Subresource == "status" {
		next := live.DeepCopy()
		setOrDrop(next.Object, "status", obj.Object["status"])
		return next, nil
	}
	obj = obj.DeepCopy()
	md, from := obj.Object["metadata"].(map[string]any), live.Object["metadata"].(map[string]any)
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "resourceVersion"} {
		setOrDrop(md, name, from[name])
	}
	if c.res.Status {
		setOrDrop(obj.Object, "status", status)
	}
	if c.res.isNamespace() {
		setOrDrop(obj.Object, "spec", live.Object["spec"])
	}
	if live.GetDeletionTimestamp() != nil {
		for _, f := range obj.GetFinalizers() {
			if !slices.Contains(live.GetFinalizers(), f) {
				return nil, c.invalid(field.Forbidden(field.NewPath("metadata", "finalizers"),
					fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers []string{%q}", f)))
			}
		}
	}
	if c.res.Generation && !sameSpec(c.res.Kind, live.Object, obj.Object) {
		obj.SetGeneration(live.GetGeneration() + 1)
	}
	return obj, nil
}

// sameSpec reports whether two versions are equal in everything that increases the
// generation.
func sameSpec(k Kind, a, b map[string]any) bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	delete(names, "metadata")
	if k.Status {
		delete(names, "status")
	}
	for name := range names {
		if !reflect.DeepEqual(a[name], b[name]) {
			return false
		}
	}
	return true
}

func setOrDrop(in map[string]any, name string, value any) {
	if value == nil {
		delete(in, name)
		return
	}
	in[name] = value
}

// write commits an object, except in a dry run. An object with a deletion timestamp and
// without finalizers is deleted.
func (h handler) write(c *call, obj *unstructured.Unstructured) (*record, error) {
	if err := c.refuseEscalation(h.Server, obj); err != nil {
		return nil, err
	}
	if c.dryRun {
		return newRecord(obj)
	}
	gone := obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && !c.res.isNamespace()
	return h.commit(c.res, obj, gone)
}
