// Package schema makes JSON schemas of Go types, with the comments of their fields.
// Tests keep the schemas in docs/cli as it says; no program uses it.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Comments are the doc comments of fields of structs, by "Type.Field".
type Comments map[string]string

// Read reads the comments of all Go files in folders. Fields that share a line
// share its comment, and those after a commented line of the same group inherit it.
func Read(folders ...string) (Comments, error) {
	out := Comments{}
	for _, dir := range folders {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("read comments: %w", err)
		}
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("read comments: %w", err)
			}
			ast.Inspect(file, out.take)
		}
	}
	return out, nil
}

// take takes in one type.
func (c Comments) take(n ast.Node) bool {
	spec, ok := n.(*ast.TypeSpec)
	if !ok {
		return true
	}
	if st, ok := spec.Type.(*ast.StructType); ok {
		last := ""
		for _, f := range st.Fields.List {
			if text := strings.Join(strings.Fields(f.Doc.Text()), " "); text != "" {
				last = text
			}
			for _, name := range f.Names {
				c[spec.Name.Name+"."+name.Name] = last
			}
		}
	}
	return true
}

// Document is the schema of a kind of document: an object with fields apiVersion,
// which is version, and kind, which is the name of its type.
func (c Comments) Document(typ reflect.Type, version string) (string, error) {
	schema := c.object(typ)
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", typ.Name()
	properties, _ := schema["properties"].(map[string]any)
	for field, value := range map[string]string{"apiVersion": version, "kind": typ.Name()} {
		p, ok := properties[field].(map[string]any)
		if !ok {
			return "", fmt.Errorf("schema of %s: there is no field %s", typ.Name(), field)
		}
		p["const"] = value
	}
	var out bytes.Buffer
	encode := json.NewEncoder(&out)
	encode.SetEscapeHTML(false)
	encode.SetIndent("", "  ")
	if err := encode.Encode(schema); err != nil {
		return "", fmt.Errorf("schema of %s: %w", typ.Name(), err)
	}
	return out.String(), nil
}

// kinds are the words for what is no object.
var kinds = map[reflect.Kind]string{
	reflect.Bool: "boolean", reflect.Float64: "number", reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
}

// described is implemented by types of the Kubernetes API that are written as
// something else than a struct, such as metav1.Time.
type described interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

func (c Comments) of(t reflect.Type) map[string]any {
	if d, ok := reflect.Zero(t).Interface().(described); ok && t.Kind() != reflect.Pointer {
		out := map[string]any{"type": d.OpenAPISchemaType()[0]}
		if format := d.OpenAPISchemaFormat(); format != "" {
			out["format"] = format
		}
		return out
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return c.of(t.Elem())
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": c.of(t.Elem())}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": c.of(t.Elem())}
	case t.Kind() == reflect.Struct:
		return c.object(t)
	case t.Kind() == reflect.Interface:
		return map[string]any{} // anything
	case kinds[t.Kind()] != "":
		return map[string]any{"type": kinds[t.Kind()]}
	}
	return map[string]any{"type": "string"}
}

func (c Comments) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner := c.object(f.Type)
			for name, p := range inner["properties"].(map[string]any) {
				properties[name] = p
			}
			required = append(required, inner["required"].([]string)...)
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		p := c.of(f.Type)
		if text := c[t.Name()+"."+f.Name]; text != "" {
			p["description"] = text
		}
		properties[name] = p
		if option != "omitempty" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}
