package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A Dangling is a reference to a name that a bundle does not have, while it has one that
// differs by one slip.
type Dangling struct {
	Index   int   // of the object with the reference, in the list
	Place   []any // of the name in it
	Message string
	Hint    string
}

// hashSuffix matches the suffix that kustomize adds to the names of ConfigMaps and
// Secrets that it generates.
var hashSuffix = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// A reference is a place of an object that names another object of its namespace.
type reference struct {
	kind, name string
	place      []any
}

// References finds references to ConfigMaps, Secrets, Services and names of ports that do
// not exist in a bundle, where one that exists has a name that differs by one slip.
// elsewhere reports whether another bundle has an object. It leaves out a name that a
// custom resource contains, because an operator may make that object.
func References(objects []Deployed, elsewhere func(kind, name string) bool) []Dangling {
	var list []Dangling
	for i, o := range objects {
		if o.Foreign {
			continue
		}
		for _, r := range referencesOf(o.Object) {
			near := spelling.SingleTypo(r.name, namesOf(objects, r.kind, o.Namespace))
			if near == "" || elsewhere(r.kind, r.name) || madeByOperator(objects, r.name) {
				continue
			}
			list = append(list, Dangling{
				Index: i, Place: r.place,
				Message: fmt.Sprintf("%s: the bundle has no %s %q in this namespace", position.Path(r.place), r.kind, printable.Line(position.ShortName(r.name))),
				Hint:    fmt.Sprintf("did you mean %q?", near),
			})
		}
		list = append(list, danglingPorts(objects, i)...)
	}
	return list
}

// namesOf are the names of the objects of a kind in a namespace, as references have
// them.
func namesOf(objects []Deployed, kind, namespace string) []string {
	var names []string
	for _, o := range objects {
		if o.Namespace != namespace || o.Object["kind"] != kind || o.Object["apiVersion"] != "v1" {
			continue
		}
		if name, ok := mapping(o.Object, "metadata")["name"].(string); ok {
			names = append(names, name, hashSuffix.ReplaceAllString(name, ""))
		}
	}
	return names
}

// madeByOperator reports whether an object of a kind that is none of Kubernetes names
// something.
func madeByOperator(objects []Deployed, name string) bool {
	return slices.ContainsFunc(objects, func(o Deployed) bool { return isCustom(o.Object) && mentionsText(o.Object, name) })
}

func mentionsText(v any, text string) bool {
	switch t := v.(type) {
	case string:
		return t == text
	case []any:
		return slices.ContainsFunc(t, func(e any) bool { return mentionsText(e, text) })
	case map[string]any:
		for _, e := range t {
			if mentionsText(e, text) {
				return true
			}
		}
	}
	return false
}

// referencesOf are the references of an object that must lead somewhere.
func referencesOf(o map[string]any) []reference {
	if o["kind"] == "Ingress" {
		return backendsOf(o)
	}
	spec, place := podOf(o)
	if spec == nil {
		return nil
	}
	var list []reference
	add := func(kind string, at []any, holder map[string]any, key string) {
		if name, ok := holder[key].(string); ok && name != "" && holder["optional"] != true {
			list = append(list, reference{kind, name, slices.Concat(at, []any{key})})
		}
	}
	for i, v := range entries(spec, "volumes") {
		at := slices.Concat(place, []any{"volumes", i})
		add("ConfigMap", slices.Concat(at, []any{"configMap"}), mapping(v, "configMap"), "name")
		add("Secret", slices.Concat(at, []any{"secret"}), mapping(v, "secret"), "secretName")
		for j, s := range entries(mapping(v, "projected"), "sources") {
			from := slices.Concat(at, []any{"projected", "sources", j})
			add("ConfigMap", slices.Concat(from, []any{"configMap"}), mapping(s, "configMap"), "name")
			add("Secret", slices.Concat(from, []any{"secret"}), mapping(s, "secret"), "name")
		}
	}
	for _, containers := range []string{"initContainers", "containers"} {
		for i, c := range entries(spec, containers) {
			at := slices.Concat(place, []any{containers, i})
			for j, e := range entries(c, "envFrom") {
				from := slices.Concat(at, []any{"envFrom", j})
				add("ConfigMap", slices.Concat(from, []any{"configMapRef"}), mapping(e, "configMapRef"), "name")
				add("Secret", slices.Concat(from, []any{"secretRef"}), mapping(e, "secretRef"), "name")
			}
			for j, e := range entries(c, "env") {
				from := slices.Concat(at, []any{"env", j, "valueFrom"})
				add("ConfigMap", slices.Concat(from, []any{"configMapKeyRef"}), mapping(e, "valueFrom", "configMapKeyRef"), "name")
				add("Secret", slices.Concat(from, []any{"secretKeyRef"}), mapping(e, "valueFrom", "secretKeyRef"), "name")
			}
		}
	}
	return list
}

// backendsOf are the Services that an Ingress names.
func backendsOf(o map[string]any) []reference {
	var list []reference
	add := func(backend map[string]any, at ...any) {
		if name, ok := mapping(backend, "service")["name"].(string); ok {
			list = append(list, reference{"Service", name, append(at, "service", "name")})
		}
	}
	add(mapping(o, "spec", "defaultBackend"), "spec", "defaultBackend")
	for i, r := range entries(mapping(o, "spec"), "rules") {
		for j, p := range entries(mapping(r, "http"), "paths") {
			add(mapping(p, "backend"), "spec", "rules", i, "http", "paths", j, "backend")
		}
	}
	return list
}

// danglingPorts are the named ports of a Service that none of the pods that it selects
// has.
func danglingPorts(objects []Deployed, index int) []Dangling {
	service := objects[index]
	selector := serviceSelector(service.Object)
	if len(selector) == 0 {
		return nil
	}
	var known []string
	for _, o := range objects {
		if w, ok := workloadOf(o.Object); ok && o.Namespace == service.Namespace && selects(selector, w.labels) {
			known = append(known, portsOf(o.Object)...)
		}
	}
	var list []Dangling
	for i, p := range entries(mapping(service.Object, "spec"), "ports") {
		name, named := p["targetPort"].(string)
		if near := spelling.SingleTypo(name, known); named && near != "" && !plural(name, near) {
			list = append(list, Dangling{
				Index: index, Place: []any{"spec", "ports", i, "targetPort"},
				Message: fmt.Sprintf("spec.ports[%d].targetPort: no port of the pods that the Service selects is called %q", i, printable.Line(position.ShortName(name))),
				Hint:    fmt.Sprintf("did you mean %q?", near),
			})
		}
	}
	return list
}

// portsOf are the names of the ports of the pods that an object makes.
func portsOf(o map[string]any) []string {
	spec, _ := podOf(o)
	var names []string
	for _, containers := range []string{"initContainers", "containers"} {
		for _, c := range entries(spec, containers) {
			for _, p := range entries(c, "ports") {
				if name, ok := p["name"].(string); ok {
					names = append(names, strings.TrimSpace(name))
				}
			}
		}
	}
	return names
}

// podOf is the spec of the pods that an object makes, and the keys that lead to it; nil
// where it makes none.
func podOf(o map[string]any) (spec map[string]any, place []any) {
	keys := []string{"spec", "template", "spec"}
	switch o["kind"] {
	case "Pod":
		keys = keys[:1]
	case "CronJob":
		keys = append([]string{"spec", "jobTemplate"}, keys...)
	}
	if isCustom(o) {
		return nil, nil
	}
	for _, key := range keys {
		place = append(place, key)
	}
	return mapping(o, keys...), place
}

// entries are the mappings in a list of a mapping, by index.
func entries(o map[string]any, key string) []map[string]any {
	list, _ := o[key].([]any)
	out := make([]map[string]any, len(list))
	for i, e := range list {
		out[i], _ = e.(map[string]any)
	}
	return out
}
