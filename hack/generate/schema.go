package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Where the schema of fleet.yaml is written, and where the keys are declared
// that a Bundle does not have.
const (
	fleetYAMLSchema = "schemas/fleet.yaml.json"
	fleetYAMLTypes  = "pkg/plan/fleetyaml/fleetyaml.go"
)

// hidden are the keys that only Fleet itself sets.
var hidden = []string{
	"resources", "targetRestrictions", "contentsId", "helmOpOptions", "valuesHash", "overwrites", "allowedTargetNamespaceSelector",
}

// duration is the pattern of durations, which a CRD has as an expression.
const duration = `^(0|([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+)$`

// fleetYAML writes the JSON schema of fleet.yaml: the spec of a Bundle as the
// CRD has it, without what is Fleet's own, and the keys of the file itself.
func fleetYAML(root string) error {
	schema, err := fleetYAMLText(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, fleetYAMLSchema)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return write(path, schema)
}

func fleetYAMLText(root string) ([]byte, error) {
	bundle, err := specSchema(root, "bundles")
	if err != nil {
		return nil, err
	}
	repo, err := specSchema(root, "gitrepos")
	if err != nil {
		return nil, err
	}
	scan, err := specSchema(root, "imagescans")
	if err != nil {
		return nil, err
	}
	text, err := fieldTexts(filepath.Join(root, fleetYAMLTypes))
	if err != nil {
		return nil, err
	}
	properties := bundle["properties"].(map[string]any)
	target := properties["targets"].(map[string]any)["items"]
	depends := properties["dependsOn"].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)
	depends["acceptedStates"].(map[string]any)["items"].(map[string]any)["enum"] = fleet.States
	properties["targets"] = list("targets", "targets is the older name of targetCustomizations. Entries here come first.", "#/$defs/target")
	properties["targetCustomizations"] = list("targetCustomizations", text["targetCustomizations"], "#/$defs/target")
	properties["overrideTargets"] = list("overrideTargets", text["overrideTargets"], "#/$defs/clusters")
	properties["imageScans"] = list("imageScans", text["imageScans"], "#/$defs/imageScan")
	properties["name"] = described(map[string]any{"type": []any{"string", "null"}}, "name", text["name"])
	for _, key := range []string{"labels", "annotations"} {
		properties[key] = described(map[string]any{
			"type": []any{"object", "null"}, "additionalProperties": map[string]any{"type": []any{"string", "null"}},
		}, key, text[key])
	}
	clusters := repo["properties"].(map[string]any)["targets"].(map[string]any)["items"]
	return indented(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"$comment":    "Generated from pkg/apis and pkg/plan/fleetyaml by hack/generate. Do not edit.",
		"title":       "fleet.yaml",
		"description": "Says how the directory that it stands in is deployed by Fleet. All keys are optional.",
		"type":        []any{"object", "null"},
		"properties":  properties, "additionalProperties": false,
		"$defs": map[string]any{
			"target":    described(target, "target", "A target selects clusters, and says how the options differ for them."),
			"clusters":  described(clusters, "clusters", "The clusters that the bundle is deployed to: those that meet all criteria. Without any criterion there are none."),
			"imageScan": imageScanSchema(scan, text["imageScan.name"]),
		},
	})
}

func imageScanSchema(spec map[string]any, name string) map[string]any {
	properties := spec["properties"].(map[string]any)
	properties["name"] = described(map[string]any{"type": []any{"string", "null"}}, "name", name)
	interval := properties["interval"].(map[string]any)
	delete(interval, "minLength")
	delete(interval, "maxLength")
	interval["pattern"] = duration
	spec["required"] = []any{"image", "tagName"}
	return described(spec, "imageScan", "An image scan looks for new tags of one image.")
}

// specSchema is the spec of a kind in its CRD, as JSON schema.
func specSchema(root, plural string) (map[string]any, error) {
	data, err := os.ReadFile(filepath.Join(root, crdDir, plural+".yaml"))
	if err != nil {
		return nil, err
	}
	var crd apiext.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("%s: %w", plural, err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return jsonSchema("", &spec), nil
}

// jsonSchema turns a schema of a CRD into one for editors: keys that are not
// known are mistakes, and what is Fleet's own is not offered.
func jsonSchema(key string, s *apiext.JSONSchemaProps) map[string]any {
	out := described(map[string]any{}, key, s.Description)
	typed(out, s)
	for name, value := range map[string]any{"pattern": s.Pattern, "minLength": s.MinLength, "maxLength": s.MaxLength, "minimum": s.Minimum, "maximum": s.Maximum} {
		if v := reflect.ValueOf(value); !v.IsZero() {
			out[name] = value
		}
	}
	if len(s.Required) > 0 {
		out["required"] = s.Required
	}
	for _, e := range s.Enum {
		list, _ := out["enum"].([]any)
		out["enum"] = append(list, e)
	}
	if s.Default != nil {
		out["default"] = s.Default
	}
	if s.Items != nil && s.Items.Schema != nil {
		out["items"] = jsonSchema("", s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out["additionalProperties"] = jsonSchema("", s.AdditionalProperties.Schema)
	}
	if len(s.Properties) > 0 {
		properties := map[string]any{}
		for name := range s.Properties {
			p := s.Properties[name]
			properties[name] = jsonSchema(name, &p)
		}
		for _, name := range hidden {
			delete(properties, name)
		}
		out["properties"], out["additionalProperties"] = properties, false
	}
	return out
}

// typed sets the type. What may be null in the API may be so here.
func typed(out map[string]any, s *apiext.JSONSchemaProps) {
	var types []any
	switch {
	case s.XIntOrString:
		types = []any{"integer", "string"}
	case s.Type != "":
		types = []any{s.Type}
	default:
		return
	}
	if s.Nullable {
		types = append(types, "null")
	}
	if len(types) == 1 {
		out["type"] = types[0]
		return
	}
	out["type"] = types
}

func list(key, text, ref string) map[string]any {
	return described(map[string]any{"type": []any{"array", "null"}, "items": map[string]any{"$ref": ref}}, key, text)
}

// goName is a name of a field at the beginning of its comment.
var goName = regexp.MustCompile(`^[A-Z]\w+`)

// described is a schema with title and description. The description begins with
// the key instead of the name that it has in Go.
func described(schema any, key, text string) map[string]any {
	out := maps.Clone(schema.(map[string]any))
	text = strings.Join(strings.Fields(text), " ")
	if key != "" {
		out["title"] = key
		if first := goName.FindString(text); first != "" && (strings.EqualFold(first, key) || strings.HasSuffix(strings.ToLower(first), strings.ToLower(key)) || first == "IgnoreOptions") {
			text = key + text[len(first):]
		}
	}
	if text != "" {
		out["description"] = text
	}
	return out
}

// fieldTexts are the comments of the fields of document, by their keys, and of
// those of other structs by "type.key".
func fieldTexts(path string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range fields.Fields.List {
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			if spec.Name.Name != "document" {
				key = spec.Name.Name + "." + key
			}
			out[key] = f.Doc.Text()
		}
		return false
	})
	for _, key := range []string{"name", "labels", "annotations", "targetCustomizations", "imageScans", "overrideTargets", "imageScan.name"} {
		if out[key] == "" {
			return nil, fmt.Errorf("%s: no comment for key %s", path, key)
		}
	}
	return out, nil
}

func indented(schema map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encode := json.NewEncoder(&out)
	encode.SetEscapeHTML(false)
	encode.SetIndent("", "  ")
	err := encode.Encode(schema)
	return out.Bytes(), err
}
