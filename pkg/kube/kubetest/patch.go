package kubetest

import (
	"fmt"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// patch patches or applies an object.
func (h handler) patch(c *call) (answer, error) {
	form, _, _ := mime.ParseMediaType(c.contentType)
	if types.PatchType(form) == types.ApplyPatchType {
		return h.apply(c)
	}
	live, err := c.live()
	if err != nil {
		return answer{}, err
	}
	after, err := h.patched(c, types.PatchType(form), live)
	if err != nil {
		return answer{}, err
	}
	obj, err := c.fromJSON(after)
	if err != nil {
		return answer{}, err
	}
	if err := c.current(live, obj); err != nil {
		return answer{}, err
	}
	return c.objectAnswer(http.StatusOK)(h.replace(c, live, obj, func(next *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.manage(live.Unstructured, next)
	}))
}

// patched is a record's text with a patch.
func (h handler) patched(c *call, kind types.PatchType, live *record) ([]byte, error) {
	patch := c.body
	switch known := c.res.known(); {
	case kind == types.StrategicMergePatchType && known != nil:
		after, err := strategicpatch.StrategicMergePatch(live.json, patch, known)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	}
	switch kind {
	case types.MergePatchType:
		after, err := jsonpatch.MergePatch(live.json, patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := steps.Apply(live.json)
		if err != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
				Message: fmt.Sprintf("the server rejected our request due to an error in our request: %v", err),
			}}
		}
		return after, nil
	}
	return nil, h.refuse("does not know patches of type %q", kind)
}

func (c *call) fromJSON(body []byte) (*unstructured.Unstructured, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return c.res.normal(c, &unstructured.Unstructured{Object: content})
}

// apply is server-side apply. It creates an object that does not exist.
func (h handler) apply(c *call) (answer, error) {
	if c.query.Get("fieldManager") == "" {
		return answer{}, apierrors.NewBadRequest("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
	}
	body, err := yaml.YAMLToJSON(c.body)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	var content map[string]any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	applied := &unstructured.Unstructured{Object: content}
	if gvk := applied.GroupVersionKind(); gvk != c.res.GroupVersionKind {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("the object is a %s and not a %s", gvk, c.res.GroupVersionKind))
	}
	applied.SetName(c.Name)
	applied.SetNamespace(c.Namespace)
	live, err := c.live()
	if apierrors.IsNotFound(err) && c.Subresource == "" {
		return c.objectAnswer(http.StatusCreated)(h.applyNew(c, applied))
	}
	if err != nil {
		return answer{}, err
	}
	if err := c.current(live, applied); err != nil {
		return answer{}, err
	}
	merged, err := c.merge(live.Unstructured, applied)
	if err != nil {
		return answer{}, err
	}
	if merged, err = c.res.normal(c, merged); err != nil {
		return answer{}, err
	}
	return c.objectAnswer(http.StatusOK)(h.replace(c, live, merged, func(next *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next.SetManagedFields(merged.GetManagedFields())
		return next, nil
	}))
}

// applyNew creates an applied object.
func (h handler) applyNew(c *call, applied *unstructured.Unstructured) (*record, error) {
	if err := h.admit(c); err != nil {
		return nil, err
	}
	merged, err := c.merge(nil, applied)
	if err != nil {
		return nil, err
	}
	obj, err := c.res.normal(c, merged)
	if err != nil {
		return nil, err
	}
	if err := c.validate(nil, obj); err != nil {
		return nil, err
	}
	h.begin(c.res, obj)
	return h.write(c, obj)
}
