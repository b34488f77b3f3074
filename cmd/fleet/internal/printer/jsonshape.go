package printer

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A jsonPlace is where a path has got to in a document.
type jsonPlace struct {
	value any          // what is there, as decoded from JSON; nil: nothing
	shape reflect.Type // what may be there; nil: not known
}

// objectList is what kubectl answers for several objects.
type objectList struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []any `json:"items"`
}

// shapeOf returns the type of a document; nil if its Go type does not name its fields.
func shapeOf(doc any) reflect.Type {
	t := reflect.TypeOf(doc)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() == reflect.Interface || ownJSON(t) {
		return nil
	}
	if t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface {
		return nil // may be anything, for example an object
	}
	return t
}

// ownJSON reports whether a type has its own form in JSON.
func ownJSON(t reflect.Type) bool {
	for _, how := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(how) || reflect.PointerTo(t).Implements(how) {
			return true
		}
	}
	return false
}

// placeOf is a place of a type, which may be a pointer or one without fields of its own.
func placeOf(value any, t reflect.Type) jsonPlace {
	if t == nil {
		return jsonPlace{value: value}
	}
	return jsonPlace{value: value, shape: shapeOf(reflect.Zero(reflect.PointerTo(t)).Interface())}
}

// typed returns the place with the type of the Kubernetes object that is there, if its
// type is not known otherwise.
func (p jsonPlace) typed() jsonPlace {
	object, ok := p.value.(map[string]any)
	if p.shape != nil || !ok {
		return p
	}
	version, kind := object["apiVersion"], object["kind"]
	if version == "v1" && kind == "List" {
		p.shape = reflect.TypeFor[objectList]()
	}
	if version == fleet.GroupVersion.String() {
		for _, k := range fleet.Kinds() {
			if k.Kind == kind {
				p.shape = reflect.TypeOf(k.New()).Elem()
			}
		}
	}
	return p
}

// set reports whether the place has a value.
func (p jsonPlace) set() bool { return p.value != nil }

// list reports whether a list is or may be there.
func (p jsonPlace) list() bool {
	if _, is := p.value.([]any); is {
		return true
	}
	return p.shape != nil && (p.shape.Kind() == reflect.Slice || p.shape.Kind() == reflect.Array)
}

// open reports whether any field may be there.
func (p jsonPlace) open() bool {
	p = p.typed()
	if p.shape != nil {
		return p.shape.Kind() == reflect.Map
	}
	_, object := p.value.(map[string]any)
	return object || p.value == nil
}

// fieldPlace returns the place of a field; known reports whether it is there or may be there.
func (p jsonPlace) fieldPlace(name string) (next jsonPlace, known bool) {
	p = p.typed()
	object, _ := p.value.(map[string]any)
	value := object[name]
	if p.shape != nil {
		switch p.shape.Kind() {
		case reflect.Struct:
			if t, ok := structFields(p.shape)[name]; ok {
				return placeOf(value, t), true
			}
		case reflect.Map:
			return placeOf(value, p.shape.Elem()), value != nil
		}
	}
	return jsonPlace{value: value}, value != nil
}

// fields returns the names of the fields that are, or may be, there.
func (p jsonPlace) fields() []string {
	p = p.typed()
	object, _ := p.value.(map[string]any)
	names := slices.Collect(maps.Keys(object))
	if p.shape != nil && p.shape.Kind() == reflect.Struct {
		names = slices.AppendSeq(names, maps.Keys(structFields(p.shape)))
	}
	return names
}

// children are the places of all that a place holds or may hold. A list has one more
// than its values: what the list could hold.
func (p jsonPlace) children() []jsonPlace {
	p = p.typed()
	var all []jsonPlace
	for _, name := range p.fields() {
		next, _ := p.fieldPlace(name)
		all = append(all, next)
	}
	values, _ := p.value.([]any)
	var element reflect.Type
	if p.shape != nil && slices.Contains([]reflect.Kind{reflect.Slice, reflect.Array, reflect.Map}, p.shape.Kind()) {
		element = p.shape.Elem()
		if shape := placeOf(nil, element); shape.shape != nil {
			all = append(all, shape)
		}
	}
	for _, value := range values {
		all = append(all, placeOf(value, element))
	}
	return all
}

// descendants are a place and all that it holds or may hold at any depth.
func (p jsonPlace) descendants() []jsonPlace {
	seen := map[reflect.Type]bool{}
	var all []jsonPlace
	var visit func(jsonPlace)
	visit = func(p jsonPlace) {
		p = p.typed()
		if !p.set() && (p.shape == nil || seen[p.shape]) {
			return
		}
		seen[p.shape] = true
		all = append(all, p)
		for _, next := range p.children() {
			visit(next)
		}
	}
	visit(p)
	return all
}

// structFields are the fields of a struct in JSON, with their types.
func structFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-":
		case name == "" && f.Anonymous && inner.Kind() == reflect.Struct:
			for inherited, of := range structFields(inner) {
				if _, own := fields[inherited]; !own {
					fields[inherited] = of
				}
			}
		case !f.IsExported():
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}
