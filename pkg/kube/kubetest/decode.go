package kubetest

import (
	"encoding/base64"
	"fmt"
	"mime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fromProtobuf reads what clients of built-in kinds send.
var fromProtobuf = protobuf.NewSerializer(scheme, scheme)

// fieldsOf parses a body into fields.
func (h handler) fieldsOf(c *call) (map[string]any, error) {
	if c.content != nil {
		return c.content, nil
	}
	form, _, _ := mime.ParseMediaType(c.contentType)
	switch form {
	case runtime.ContentTypeProtobuf:
		obj, gvk, err := fromProtobuf.Decode(c.body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		out["apiVersion"], out["kind"] = gvk.ToAPIVersionAndKind()
		return out, nil
	case runtime.ContentTypeJSON, "":
		var out map[string]any
		if err := utiljson.Unmarshal(c.body, &out); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is no JSON object: %v", err))
		}
		return out, nil
	}
	return nil, h.refuse("does not read %q", c.contentType)
}

// typed reads a body into an object of a Go type.
func (h handler) typed(c *call, into any) error {
	fields, err := h.fieldsOf(c)
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// object reads the object of a body.
func (h handler) object(c *call) (*unstructured.Unstructured, error) {
	content, err := h.fieldsOf(c)
	if err != nil {
		return nil, err
	}
	return c.res.normal(c, &unstructured.Unstructured{Object: content})
}

// normal returns an object as the server stores it: with the kind of its resource and
// its namespace, and for a built-in kind without unknown or empty fields.
func (r *resource) normal(c *call, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if gvk := obj.GroupVersionKind(); gvk != r.GroupVersionKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object is a %s and not a %s", gvk, r.GroupVersionKind))
	}
	switch obj.GetNamespace() {
	case c.Namespace:
	case "":
		obj.SetNamespace(c.Namespace)
	default:
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if known := r.known(); known != nil {
		strict := c.query.Get("fieldValidation") == metav1.FieldValidationStrict
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, known, strict); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%[1]s in version %[2]q cannot be handled as a %[1]s: %[3]v", r.Kind.Kind, r.Version, err))
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(known)
		if err != nil {
			return nil, err
		}
		obj = &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(r.GroupVersionKind)
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		unstructured.RemoveNestedField(obj.Object, "metadata", "creationTimestamp")
	}
	if err := r.defaults(obj); err != nil {
		return nil, err
	}
	if err := r.fit(obj); err != nil {
		return nil, err
	}
	return obj, c.withinLimit(r, obj)
}

// dataLimit is how many bytes the values of a Secret or of a ConfigMap may have in all.
const dataLimit = corev1.MaxSecretSize

// withinLimit returns an error for a Secret or a ConfigMap that is too large.
func (c *call) withinLimit(r *resource, obj *unstructured.Unstructured) error {
	if r.Group != "" || r.Kind.Kind != "Secret" && r.Kind.Kind != "ConfigMap" {
		return nil
	}
	size := 0
	for _, name := range []string{"data", "binaryData"} {
		values, _ := obj.Object[name].(map[string]any)
		for _, v := range values {
			text, _ := v.(string)
			if r.Kind.Kind == "Secret" || name == "binaryData" {
				size += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(text, "=")))
			} else {
				size += len(text)
			}
		}
	}
	if size <= dataLimit {
		return nil
	}
	return apierrors.NewInvalid(r.GroupKind(), obj.GetName(), field.ErrorList{field.TooLong(field.NewPath("data"), "", dataLimit)})
}

// defaults sets the defaults of API servers for the kinds that Fleet creates most.
func (r *resource) defaults(obj *unstructured.Unstructured) error {
	if r.Group != "" {
		return nil
	}
	switch r.Kind.Kind {
	case "Secret":
		return secretDefaults(obj)
	case "Namespace":
		if obj.GetName() == "" {
			return nil // it is generated later
		}
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = obj.GetName()
		obj.SetLabels(labels)
	}
	return nil
}

func secretDefaults(obj *unstructured.Unstructured) error {
	if kind, _, _ := unstructured.NestedString(obj.Object, "type"); kind == "" {
		obj.Object["type"] = "Opaque"
	}
	plain, _, err := unstructured.NestedStringMap(obj.Object, "stringData")
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	delete(obj.Object, "stringData")
	for name, value := range plain {
		if err := unstructured.SetNestedField(obj.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", name); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return nil
}

// deleteOptions parses the body of a deletion, which may be empty.
func (h handler) deleteOptions(c *call) (metav1.DeleteOptions, error) {
	var out metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := h.typed(c, &out); err != nil {
			return out, err
		}
	}
	if policy := c.query.Get("propagationPolicy"); policy != "" {
		out.PropagationPolicy = new(metav1.DeletionPropagation(policy))
	}
	return out, nil
}
