package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// maxDepth bounds how deep a schema of a CRD is followed.
const maxDepth = 100

// A definition is what a CRD says about its kind.
type definition struct {
	// versions that are served; the schema is nil where it accepts anything.
	versions map[string]*apiextensions.JSONSchemaProps
}

// definitionOf reads a CRD of any version of apiextensions.k8s.io. One of
// v1beta1 makes its kind known, without a schema.
func definitionOf(object map[string]any) (kube.GroupKind, *definition) {
	raw, err := json.Marshal(object)
	if err != nil {
		return kube.GroupKind{}, nil
	}
	var crd apiextensions.CustomResourceDefinition
	if json.Unmarshal(raw, &crd) != nil || crd.Spec.Names.Kind == "" || crd.Spec.Group == "" {
		return kube.GroupKind{}, nil
	}
	d := &definition{versions: map[string]*apiextensions.JSONSchemaProps{}}
	if old := struct {
		Spec struct {
			Version string `json:"version"`
		} `json:"spec"`
	}{}; json.Unmarshal(raw, &old) == nil && old.Spec.Version != "" {
		d.versions[old.Spec.Version] = nil
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		d.versions[v.Name] = nil
		if v.Schema != nil && !crd.Spec.PreserveUnknownFields {
			d.versions[v.Name] = v.Schema.OpenAPIV3Schema
		}
	}
	return kube.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, d
}

// checkObject compares an object with the schema of its version.
func (d *definition) checkObject(w *objectCheck, gvk kube.GroupVersionKind, object map[string]any) {
	s, served := d.versions[gvk.Version]
	if !served {
		w.addFault(finding.RuleAPIVersion, false, []any{"apiVersion"}, fmt.Sprintf("the CRD of %s does not serve version %q", gvk.Kind, position.ShortName(gvk.Version)),
			"it serves "+strings.Join(slices.Sorted(maps.Keys(d.versions)), ", "))
		return
	}
	if s != nil {
		c := &customWalk{objectCheck: w}
		c.checkValue(object, s, nil)
	}
}

// checkLinked compares an object of a kind of Fleet with the schema of its version, and
// with the linked type, which knows more: what decodes, and which selectors are possible.
// Which fields there are is what the schema says: the Fleet of the cluster may be newer.
func (d *definition) checkLinked(w *objectCheck, gvk kube.GroupVersionKind, object map[string]any, t reflect.Type) {
	typed := &objectCheck{newer: w.newer}
	typed.checkValue(object, t, nil)
	custom := &objectCheck{newer: w.newer}
	d.checkObject(custom, gvk, object)
	schemaless := d.versions[gvk.Version] == nil
	for _, f := range typed.faults {
		if !f.Key || schemaless {
			w.keepFault(f)
		}
	}
	for _, f := range custom.faults {
		same := slices.IndexFunc(typed.faults, func(o Fault) bool { return o.Key == f.Key && o.Rule == f.Rule && reflect.DeepEqual(o.Path, f.Path) })
		switch {
		case same < 0:
			w.keepFault(f)
		case f.Key:
			f.Hint = cmp.Or(f.Hint, typed.faults[same].Hint)
			w.keepFault(f)
		}
	}
}

// A customWalk compares values with schemas of CRDs. Kubernetes adds fields to
// built-in kinds only, so that a newer one changes nothing here.
type customWalk struct{ *objectCheck }

func (c *customWalk) checkValue(v any, s *apiextensions.JSONSchemaProps, path []any) {
	if v == nil || len(c.faults) >= maxFaults || len(path) > maxDepth {
		return
	}
	if s.XIntOrString {
		if _, text := v.(string); !text && !isWhole(v) {
			c.refuseValue(path, "a whole number or a text", v)
		}
		return
	}
	switch want, ok := typeOf(v, s.Type); {
	case !ok:
		c.refuseValue(path, want, v)
		return
	case len(s.Enum) > 0 && !isInEnum(v, s.Enum):
		c.addFault(finding.RuleValue, false, path, position.Path(path)+" must be one of "+listed(s.Enum), "")
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.checkObject(v, s, path)
	case []any:
		if s.Items != nil && s.Items.Schema != nil {
			for i, e := range v {
				c.checkValue(e, s.Items.Schema, append(path, i))
			}
		}
	}
}

// checkObject checks the fields of a mapping. Those that all objects have are checked
// elsewhere.
func (c *customWalk) checkObject(m map[string]any, s *apiextensions.JSONSchemaProps, path []any) {
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			at := append(slices.Clone(path), name)
			c.addFault(finding.RuleValue, false, path, position.Path(at)+" is required", "")
		}
	}
	loose := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	whole := len(path) == 0 || s.XEmbeddedResource
	for key, e := range inOrder(m) {
		at := append(path, key) //nolint:gocritic // each use is over before the next begins
		field, known := s.Properties[key]
		switch {
		case whole && slices.Contains([]string{"apiVersion", "kind", "metadata"}, key):
		case known:
			c.checkValue(e, &field, at)
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			c.checkValue(e, s.AdditionalProperties.Schema, at)
		case s.AdditionalProperties != nil && s.AdditionalProperties.Allows, loose:
		case s.Type != "object" && len(s.Properties) == 0: // a schema that accepts anything
		default:
			newer := c.newer
			c.newer = false
			c.addUnknownField(at, key, slices.Sorted(maps.Keys(s.Properties)), "")
			c.newer = newer
		}
	}
}

// typeOf reports whether a value is of a type of JSON schema; want is that type
// in words.
func typeOf(v any, name string) (want string, ok bool) {
	switch name {
	case "object":
		_, ok = v.(map[string]any)
		return aMapping, ok
	case "array":
		_, ok = v.([]any)
		return aList, ok
	case "string":
		_, ok = v.(string)
		return aText, ok
	case "boolean":
		_, ok = v.(bool)
		return aBool, ok
	case "integer":
		return aWhole, isWhole(v)
	case "number":
		_, ok = toFloat(v)
		return aNumber, ok
	}
	return "", true
}

func isWhole(v any) bool {
	n, ok := toFloat(v)
	return ok && n == math.Trunc(n)
}

func isInEnum(v any, enum []apiextensions.JSON) bool {
	return slices.ContainsFunc(enum, func(e apiextensions.JSON) bool {
		var one any
		if json.Unmarshal(e.Raw, &one) != nil {
			return true
		}
		a, isNumber := toFloat(v)
		b, other := toFloat(one)
		return isNumber && other && a == b || reflect.DeepEqual(v, one)
	})
}

// listed are the first values that are allowed.
func listed(enum []apiextensions.JSON) string {
	var list []string
	for _, e := range enum {
		if len(list) == 8 {
			list = append(list, "…")
			break
		}
		list = append(list, position.ShortName(string(e.Raw)))
	}
	return strings.Join(list, ", ")
}
