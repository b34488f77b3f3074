package schema

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A objectCheck collects the faults of one object. It never repeats values: they may be
// secret.
type objectCheck struct {
	faults []Fault
	newer  bool // the cluster's types may have more fields than those that are linked
}

func (o *objectCheck) addFault(rule string, key bool, path []any, message, hint string) {
	o.keepFault(Fault{Path: append([]any(nil), path...), Key: key, Severity: finding.Error, Rule: rule, Message: message, Hint: hint})
}

// keepFault keeps a fault, unless the object has as many already as are kept.
func (o *objectCheck) keepFault(f Fault) {
	if len(o.faults) < maxFaults {
		o.faults = append(o.faults, f)
	}
}

// renamed says which field of networking.k8s.io/v1 replaces a field of Ingress in
// v1beta1; empty for another field. known are the fields of v1 in that place.
func renamed(path []any, known []string) string {
	switch key := path[len(path)-1]; {
	case key == "serviceName" && slices.Contains(known, "service") && slices.Contains(known, "resource"):
		return "networking.k8s.io/v1 has service: {name: ...} in its place"
	case key == "servicePort" && slices.Contains(known, "service") && slices.Contains(known, "resource"):
		return "networking.k8s.io/v1 has service: {port: {number: ...}} in its place, or {port: {name: ...}}"
	case key == "backend" && slices.Contains(known, "defaultBackend"):
		return "networking.k8s.io/v1 has defaultBackend in its place"
	}
	return ""
}

// misplaced is where the field belongs that stands in a type without it; empty where that
// is not known.
func misplaced(key string, t reflect.Type) string {
	if t == reflect.TypeFor[metav1.LabelSelector]() {
		if spelling.Nearest(key, fieldsOf(t).names) == "" {
			return "labels belong below matchLabels"
		}
		return ""
	}
	var below []string
	for name, f := range fieldsOf(t).types {
		for f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct && name != "status" && fieldsOf(f).types[key] != nil {
			below = append(below, name)
		}
	}
	if len(below) != 1 {
		return ""
	}
	return fmt.Sprintf("it belongs below %s: indent it one level deeper", below[0])
}

// addUnknownField adds the fault of a field that a schema does not have; hint is where it belongs.
func (o *objectCheck) addUnknownField(path []any, key string, known []string, hint string) {
	hint = cmp.Or(renamed(path, known), hint)
	if near := spelling.Nearest(position.ShortName(key), known); near != "" && hint == "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	o.addFault(finding.RuleUnknownField, true, path, fmt.Sprintf("unknown field %q", position.Path(path)), hint)
	if last := len(o.faults) - 1; o.newer && last >= 0 && o.faults[last].Rule == finding.RuleUnknownField {
		o.faults[last].Severity = finding.Warning
		o.faults[last].Hint = "this fleet knows Kubernetes up to " + Linked
	}
}

func (o *objectCheck) refuseValue(path []any, want string, got any) {
	hint := ""
	if want == aText && isScalar(got) {
		hint = "put it in quotes"
	}
	o.addFault(finding.RuleType, false, path, fmt.Sprintf("%s must be %s, not %s", position.Path(path), want, describe(got)), hint)
}

// What values are in words.
const (
	aText    = "a text"
	aMapping = "a mapping"
	aList    = "a list"
	aNumber  = "a number"
	aWhole   = "a whole number"
	aBool    = "true or false"
)

func describe(v any) string {
	switch v.(type) {
	case map[string]any:
		return aMapping
	case []any:
		return aList
	case string:
		return aText
	case bool:
		return aBool
	}
	return aNumber
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// checkValue compares one value with the type that it is decoded to. Null is accepted
// everywhere: it is decoded to nothing.
func (o *objectCheck) checkValue(v any, t reflect.Type, path []any) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil || len(o.faults) >= maxFaults:
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		o.decoded(v, t, path)
	case t.Kind() == reflect.Struct:
		o.structure(v, t, path)
	case t.Kind() == reflect.Map:
		entries, ok := v.(map[string]any)
		if !ok {
			o.refuseValue(path, aMapping, v)
			return
		}
		for key, e := range inOrder(entries) {
			o.checkValue(e, t.Elem(), append(path, key))
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		o.base64(v, path)
	case t.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			o.refuseValue(path, aList, v)
			return
		}
		for i, e := range list {
			o.checkValue(e, t.Elem(), append(path, i))
		}
	default:
		o.scalar(v, t, path)
	}
}

func (o *objectCheck) structure(v any, t reflect.Type, path []any) {
	entries, ok := v.(map[string]any)
	if !ok {
		o.refuseValue(path, aMapping, v)
		return
	}
	known := fieldsOf(t)
	before := len(o.faults)
	for key, e := range inOrder(entries) {
		if f, ok := known.types[key]; ok {
			o.checkValue(e, f, append(path, key))
		} else {
			o.addUnknownField(append(path, key), key, known.names, misplaced(key, t))
		}
	}
	if t == reflect.TypeFor[metav1.LabelSelector]() && len(o.faults) == before {
		o.selector(entries, path)
	}
}

// scalar checks a value that is a single one, as the decoder of an API server
// would.
func (o *objectCheck) scalar(v any, t reflect.Type, path []any) {
	switch t.Kind() {
	case reflect.String:
		text, ok := v.(string)
		if !ok {
			o.refuseValue(path, aText, v)
		}
		o.oneOf(text, t, path)
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			o.refuseValue(path, aBool, v)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		o.checkInteger(v, t, path)
	case reflect.Float32, reflect.Float64:
		if _, ok := toFloat(v); !ok {
			o.refuseValue(path, aNumber, v)
		}
	}
}

func (o *objectCheck) checkInteger(v any, t reflect.Type, path []any) {
	n, ok := toFloat(v)
	switch {
	case !ok:
		o.refuseValue(path, aWhole, v)
	case n != math.Trunc(n):
		o.addFault(finding.RuleType, false, path, position.Path(path)+" must be a whole number", "")
	case t.Bits() <= 32 && reflect.Zero(t).CanInt() && reflect.Zero(t).OverflowInt(int64(n)):
		o.addFault(finding.RuleType, false, path, position.Path(path)+" is too large a number", "")
	}
}

func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func (o *objectCheck) base64(v any, path []any) {
	text, ok := v.(string)
	if !ok {
		o.refuseValue(path, aText, v)
		return
	}
	switch decoded, err := base64.StdEncoding.DecodeString(text); {
	case err != nil && isPEM(text):
		o.addFault(finding.RuleType, false, path, position.Path(path)+" is PEM, and the base64 of it is wanted", plainHint(path))
	case err != nil:
		o.addFault(finding.RuleType, false, path, position.Path(path)+" is not base64", plainHint(path))
	case isEncodedPEM(string(decoded)):
		o.addWarning(path, position.Path(path)+" is the base64 of base64, and it is decoded once", "write the base64 of the PEM itself")
	}
}

// decoded tries a type that decodes itself.
func (o *objectCheck) decoded(v any, t reflect.Type, path []any) {
	raw, err := json.Marshal(v)
	if err != nil || json.Unmarshal(raw, reflect.New(t).Interface()) == nil {
		return
	}
	want := "of another type"
	switch t.Name() {
	case "Quantity":
		want = "a quantity such as 100m or 1Gi"
	case "Time", "MicroTime":
		want = "a time such as 2006-01-02T15:04:05Z"
	case "Duration":
		want = "a duration such as 90s"
	case "IntOrString":
		want = "a whole number or a text"
	}
	o.addFault(finding.RuleType, false, path, position.Path(path)+" must be "+want, "")
}

// fields are the JSON names of a struct, and their types.
type fields struct {
	types map[string]reflect.Type
	names []string
}

var known sync.Map // reflect.Type -> fields

func fieldsOf(t reflect.Type) fields {
	if f, ok := known.Load(t); ok {
		return f.(fields) //nolint:forcetypeassert // nothing else is stored
	}
	out := fields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			inner := fieldsOf(f.Type)
			for _, n := range inner.names {
				out.add(n, inner.types[n])
			}
		case name != "":
			out.add(name, f.Type)
		}
	}
	known.Store(t, out)
	return out
}

func (f *fields) add(name string, t reflect.Type) {
	if _, ok := f.types[name]; !ok {
		f.names = append(f.names, name)
	}
	f.types[name] = t
}
