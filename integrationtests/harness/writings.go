package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whole is the only field of a Writing that replaced a whole object.
const Whole = "*"

// A Writing is a successful write, and the fields that it was about.
type Writing struct {
	Request
	// Fields are paths, "spec.paused" or `metadata.labels[a.b/c]`, sorted; a list
	// is one field. A field that a patch removes counts as well. An update is about
	// Whole; a deletion is about none.
	Fields []string
}

// Is reports whether the writing was one of a resource ("<plural>.<group>") of a name
// in a namespace ("" where it has none).
func (w Writing) Is(resource, namespace, name string) bool {
	own := w.Group == "" && w.Resource == "namespaces" // to the API server a Namespace is in itself
	return w.Resource+"."+w.Group == resource && (own || w.Namespace == namespace) && w.Name == name
}

// String is one line for people.
func (w Writing) String() string {
	return w.Request.String() + ": " + strings.Join(w.Fields, " ")
}

// notFields are parts of what is sent that no writer means to set.
var notFields = []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.resourceVersion", "metadata.uid", "metadata.creationTimestamp"}

// Writings lists the changes that an API server in memory has accepted since a moment: a real
// one does not log which fields were sent.
func Writings(t testing.TB, c ControlPlane, since time.Time) []Writing {
	t.Helper()
	list, err := RequestsOf(c, since)
	must(t, err)
	var out []Writing
	for _, r := range list {
		if !r.Writes() || r.Code < 200 || r.Code > 299 || strings.Contains(r.Query, "dryRun=") {
			continue
		}
		fields, err := fieldsOf(r)
		must(t, err)
		out = append(out, Writing{Request: r, Fields: fields})
	}
	return out
}

// WhoWrote are the users who have written a field of an object, in the order of
// their first write of it. An update counts as a write of every field.
func WhoWrote(list []Writing, field, resource, namespace, name string) []string {
	var users []string
	for _, w := range list {
		if !w.Is(resource, namespace, name) || slices.Contains(users, w.User) {
			continue
		}
		if slices.ContainsFunc(w.Fields, func(f string) bool { return f == Whole || f == field }) {
			users = append(users, w.User)
		}
	}
	return users
}

// FieldsBy are all fields of an object that a user has written, sorted.
func FieldsBy(list []Writing, user, resource, namespace, name string) []string {
	all := map[string]bool{}
	for _, w := range list {
		if w.User == user && w.Is(resource, namespace, name) {
			for _, f := range w.Fields {
				all[f] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// fieldsOf are the fields that a request is about.
func fieldsOf(r Request) ([]string, error) {
	switch {
	case r.Verb == "update":
		return []string{Whole}, nil
	case r.Body == "" || r.Body == "null":
		return nil, nil
	}
	var body any
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
		return nil, fmt.Errorf("read what was sent: %s: %w", r, err)
	}
	var fields []string
	if operations, ok := body.([]any); ok { // a JSON patch
		for _, o := range operations {
			if one, ok := o.(map[string]any); ok {
				fields = append(fields, strings.ReplaceAll(strings.Trim(fmt.Sprint(one["path"]), "/"), "/", "."))
			}
		}
	} else {
		fields = leaves("", body)
	}
	fields = slices.DeleteFunc(fields, func(f string) bool { return slices.Contains(notFields, f) })
	slices.Sort(fields)
	return fields, nil
}

// leaves are the paths of what is set, or removed, in a value.
func leaves(path string, value any) []string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 && path != "" {
		return []string{path}
	}
	var out []string
	for name, v := range fields {
		below := path + "." + name
		if strings.ContainsAny(name, "./") {
			below = path + "[" + name + "]"
		}
		out = append(out, leaves(strings.TrimPrefix(below, "."), v)...)
	}
	return out
}
