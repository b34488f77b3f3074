package kubetest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ServeByDefinition makes the server serve the kinds of Fleet and of Rancher as it serves
// other custom kinds, and as real API servers do: each while its CustomResourceDefinition
// exists, with the fields of its schema. Without it these kinds are always served, and
// with all fields. Call it before the first request.
func (s *Server) ServeByDefinition() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byDefinition = true
	for gvr, res := range s.resources {
		if res.Custom && res.definition == "" {
			delete(s.resources, gvr)
		}
	}
}

// definitions serve kinds by their CustomResourceDefinitions.
type definitions struct{ *Server }

func (r *resource) isDefinition() bool {
	return r.Group == apiextensionsv1.GroupName && r.Kind.Kind == "CustomResourceDefinition"
}

// read returns what a CustomResourceDefinition says; nil if it defines no kind that
// this server has by it: one that is always served, or one without a spec.
func (s definitions) read(r *record) (*apiextensionsv1.CustomResourceDefinition, *Kind, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &crd); err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage && v.Served })
	if i < 0 {
		return nil, nil, nil
	}
	v := crd.Spec.Versions[i]
	k := &Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind},
		Plural:           crd.Spec.Names.Plural, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Status: v.Subresources != nil && v.Subresources.Status != nil, Generation: true, Custom: true,
	}
	if v.Schema != nil {
		k.schema = v.Schema.OpenAPIV3Schema
	}
	if res := s.resources[k.resource()]; res != nil && res.definition == "" {
		return nil, nil, nil
	}
	return &crd, k, nil
}

// define serves the kind of a CustomResourceDefinition that was written, and no longer that of
// one that is gone. The caller holds s.mu.
func (s definitions) define(r *record, gone bool) error {
	crd, k, err := s.read(r)
	if err != nil || crd == nil {
		return err
	}
	res := s.resources[k.resource()]
	switch {
	case gone && res != nil:
		delete(s.resources, k.resource())
		res.cuts++
		res.report() // ends the watches
	case gone:
	case res == nil:
		res = newResource(*k)
		res.definition, res.lost = crd.Name, s.version
		s.resources[k.resource()] = res
		s.collected = 0 // it may be the kind of an owner that is gone
	default:
		res.Kind = *k
		res.terminating = crd.DeletionTimestamp != nil
	}
	return nil
}

// established sets the status of a CustomResourceDefinition whose kind is served.
func established(obj *unstructured.Unstructured) {
	names, _, _ := unstructured.NestedMap(obj.Object, "spec", "names")
	versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
	stored := []any{}
	for _, v := range versions {
		if one, ok := v.(map[string]any); ok && one["storage"] == true {
			stored = append(stored, one["name"])
		}
	}
	condition := func(kind apiextensionsv1.CustomResourceDefinitionConditionType, reason, message string) any {
		return map[string]any{
			"type": string(kind), "status": "True", "reason": reason, "message": message, "lastTransitionTime": now().Format("2006-01-02T15:04:05Z"),
		}
	}
	obj.Object["status"] = map[string]any{"acceptedNames": names, "storedVersions": stored, "conditions": []any{
		condition(apiextensionsv1.NamesAccepted, "NoConflicts", "no conflicts found"),
		condition(apiextensionsv1.Established, "InitialNamesAccepted", "the initial names have been accepted"),
	}}
}

// terminate marks a CustomResourceDefinition that is being deleted: it waits for its
// objects.
func terminate(obj *unstructured.Unstructured) {
	obj.SetFinalizers(append(obj.GetFinalizers(), apiextensionsv1.CustomResourceCleanupFinalizer))
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	list = append(list, map[string]any{
		"type": string(apiextensionsv1.Terminating), "status": "True", "reason": "InstanceDeletionInProgress",
		"message": "CustomResource deletion is in progress", "lastTransitionTime": now().Format("2006-01-02T15:04:05Z"),
	})
	_ = unstructured.SetNestedSlice(obj.Object, list, "status", "conditions") // the conditions were read as a list
}

// undefine deletes the objects of a CustomResourceDefinition that is being deleted, and the
// definition after the last of them.
func (s definitions) undefine(res *resource, r *record) error {
	if r.GetDeletionTimestamp() == nil || !slices.Contains(r.GetFinalizers(), apiextensionsv1.CustomResourceCleanupFinalizer) {
		return nil
	}
	crd, k, err := s.read(r)
	if err != nil || crd == nil {
		return err
	}
	if kind := s.resources[k.resource()]; kind != nil {
		if left, err := collector(s).deleteAll(kind, func(kube.Key) bool { return true }); left || err != nil {
			return err
		}
	}
	obj := r.DeepCopy()
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer }))
	_, err = s.commit(res, obj, len(obj.GetFinalizers()) == 0)
	return err
}

// refuseNew refuses to create objects of a kind whose definition is being deleted.
func (c *call) refuseNew() error {
	if !c.res.terminating {
		return nil
	}
	return apierrors.NewForbidden(c.res.resource().GroupResource(), c.Name, errors.New("create not allowed while custom resource definition is terminating"))
}

// notServed is the answer to a request for a kind that is not served.
func (c *call) notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, c.Verb, c.Kind.GroupResource(), c.Name, "", 0, true)
}

// builtInGroup reports whether a group has built-in kinds: those that this server does not
// serve a test must not ask for.
func (h handler) builtInGroup(gv schema.GroupVersion) bool {
	if h.byDefinition && slices.ContainsFunc(custom(), func(k Kind) bool { return k.Group == gv.Group }) {
		return false
	}
	return scheme.IsGroupRegistered(gv.Group) && scheme.IsVersionRegistered(gv)
}

// A shape is the schema of a field of a custom kind.
type shape = apiextensionsv1.JSONSchemaProps

// fit returns an object with the defaults of its schema, and without the fields that the schema does
// not have.
func (k Kind) fit(obj *unstructured.Unstructured) error {
	if k.schema == nil {
		return nil
	}
	root := *k.schema
	root.XEmbeddedResource = true
	prune(obj.Object, &root)
	return fill(obj.Object, &root)
}

// prune removes the fields that a schema does not have.
func prune(value any, s *shape) {
	switch v := value.(type) {
	case map[string]any:
		keep := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
		for name, field := range v {
			known := fieldOf(s, name)
			own := s.XEmbeddedResource && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
			switch {
			case own:
			case known != nil:
				prune(field, known)
			case !keep:
				delete(v, name)
			}
		}
	case []any:
		for _, one := range v {
			if s.Items != nil && s.Items.Schema != nil {
				prune(one, s.Items.Schema)
			}
		}
	}
}

// fieldOf returns the schema of a field; nil if the schema does not have it.
func fieldOf(s *shape, name string) *shape {
	if known, ok := s.Properties[name]; ok {
		return &known
	}
	switch more := s.AdditionalProperties; {
	case more == nil:
		return nil
	case more.Schema != nil:
		return more.Schema
	default:
		return &shape{XPreserveUnknownFields: &more.Allows}
	}
}

// fill sets the defaults of a schema.
func fill(value any, s *shape) error {
	switch v := value.(type) {
	case map[string]any:
		return fillFields(v, s)
	case []any:
		if s.Items == nil || s.Items.Schema == nil {
			return nil
		}
		for _, one := range v {
			if err := fill(one, s.Items.Schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillFields is fill for an object.
func fillFields(v map[string]any, s *shape) error {
	for name, known := range s.Properties {
		if _, set := v[name]; set || known.Default == nil {
			continue
		}
		var text any
		if err := utiljson.Unmarshal(known.Default.Raw, &text); err != nil {
			return fmt.Errorf("default of %s: %w", name, err)
		}
		v[name] = text
	}
	for name, field := range v {
		if known := fieldOf(s, name); known != nil {
			if err := fill(field, known); err != nil {
				return err
			}
		}
	}
	return nil
}
