package v1alpha1_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var update = flag.Bool("update", false, "add new lines to the golden files")

// root is the repository, seen from this package.
const root = "../../../.."

// loadCRDs reads the chart's templates, by kind.
func loadCRDs(t *testing.T) map[string]*apiext.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "charts/fleet-crd/templates/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CustomResourceDefinitions in the chart: %v", err)
	}
	crds := map[string]*apiext.CustomResourceDefinition{}
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiext.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		crds[crd.Spec.Names.Kind] = crd
	}
	return crds
}

func schemaOf(crd *apiext.CustomResourceDefinition) *apiext.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// fields lists what users of a kind rely on: how it is addressed, its columns,
// and every field with its type, its choices and its default.
func fields(crd *apiext.CustomResourceDefinition) []string {
	lines := []string{
		"#scope " + string(crd.Spec.Scope),
		"#plural " + crd.Spec.Names.Plural,
	}
	for _, v := range crd.Spec.Versions {
		for _, c := range v.AdditionalPrinterColumns {
			lines = append(lines, "#column "+c.Name+"="+c.JSONPath)
		}
		if v.Subresources != nil && v.Subresources.Status != nil {
			lines = append(lines, "#status-subresource yes")
		}
		lines = append(lines, properties("", v.Schema.OpenAPIV3Schema)...)
	}
	slices.Sort(lines)
	return lines
}

func properties(path string, s *apiext.JSONSchemaProps) []string {
	name := path
	if name == "" {
		name = "."
	}
	lines := []string{name + " " + typeOf(s)}
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, quote(e.Raw))
		}
		slices.Sort(words)
		lines = append(lines, path+"#enum ["+strings.Join(words, ", ")+"]")
	}
	if s.Default != nil && path != "" {
		lines = append(lines, path+"#default "+quote(s.Default.Raw))
	}
	for k, p := range s.Properties {
		lines = append(lines, properties(path+"."+k, &p)...)
	}
	if s.Items != nil {
		lines = append(lines, properties(path+"[]", s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		lines = append(lines, properties(path+"{}", s.AdditionalProperties.Schema)...)
	}
	return lines
}

// typeOf is the JSON type; a star marks objects that keep unknown fields.
func typeOf(s *apiext.JSONSchemaProps) string {
	word := s.Type
	switch {
	case s.XIntOrString:
		word = "int-or-string"
	case word == "":
		word = "any"
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		word += "*"
	}
	return word
}

func quote(raw []byte) string {
	switch text := string(raw); text {
	case "true":
		return "True"
	case "false":
		return "False"
	default:
		if word, err := strconv.Unquote(text); err == nil {
			return "'" + word + "'"
		}
		return text
	}
}

// TestFields checks that no field of a kind is removed by accident: the list of
// a kind only grows. With -update new lines are added. A person who knows the
// users of a field removes its line by hand.
func TestFields(t *testing.T) {
	for kind, crd := range loadCRDs(t) {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join("testdata", "TestFields", kind+".golden")
			known := readLines(t, file)
			have := fields(crd)
			for _, line := range known {
				if !slices.Contains(have, line) {
					t.Errorf("gone: %s", line)
				}
			}
			var fresh []string
			for _, line := range have {
				if !slices.Contains(known, line) {
					fresh = append(fresh, line)
				}
			}
			if *update {
				writeLines(t, file, append(known, fresh...))
			} else if len(fresh) > 0 {
				t.Errorf("not in %s, run with -update:\n%s", file, strings.Join(fresh, "\n"))
			}
		})
	}
}

// The list of the API that we are compatible with, where it is at hand.
func TestFieldsOfReference(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "../shared/spec/crd-fields.txt"))
	if err != nil {
		t.Skip("the list of the reference is not at hand")
	}
	have := map[string]bool{}
	for kind, crd := range loadCRDs(t) {
		for _, line := range fields(crd) {
			have[kind+" "+line] = true
		}
	}
	n := 0
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		n++
		if !have[line] {
			t.Errorf("missing: %s", line)
		}
	}
	if n < 1800 {
		t.Errorf("the list has %d lines only", n)
	}
}

// What the table of kinds says is what the definitions say.
func TestKindsMatchDefinitions(t *testing.T) {
	crds := loadCRDs(t)
	if len(crds) != len(fleet.Kinds()) {
		t.Errorf("%d definitions for %d kinds", len(crds), len(fleet.Kinds()))
	}
	taken := map[string]string{}
	for _, k := range fleet.Kinds() {
		crd := crds[k.Kind]
		if crd == nil {
			t.Errorf("%s: no definition", k.Kind)
			continue
		}
		v := crd.Spec.Versions[0]
		got := fmt.Sprint(crd.Name, crd.Spec.Names.Plural, crd.Spec.Scope == apiext.NamespaceScoped, v.Subresources != nil && v.Subresources.Status != nil)
		want := fmt.Sprint(k.Name(), k.Plural, k.Namespaced, k.Status)
		if got != want {
			t.Errorf("%s: definition %s, table %s", k.Kind, got, want)
		}
		if got := crd.Annotations[fleet.AnnotationCRDRevision]; got != strconv.Itoa(fleet.CRDRevision) {
			t.Errorf("%s: revision %q", k.Kind, got)
		}
		columns := v.AdditionalPrinterColumns
		if len(columns) == 0 || columns[len(columns)-1].Name != "Age" {
			t.Errorf("%s: the last column is not Age", k.Kind)
		}
		if len(crd.Spec.Names.ShortNames) == 0 {
			t.Errorf("%s: no short name", k.Kind)
		}
		for _, short := range crd.Spec.Names.ShortNames {
			if taken[short] != "" {
				t.Errorf("short name %s is taken by %s and %s", short, taken[short], k.Kind)
			}
			taken[short] = k.Kind
		}
	}
}

// Every field is explained, so that kubectl explain has an answer.
func TestFieldsAreExplained(t *testing.T) {
	for kind, crd := range loadCRDs(t) {
		for _, path := range silent("", schemaOf(crd)) {
			t.Errorf("%s%s has no description", kind, path)
		}
	}
}

func silent(path string, s *apiext.JSONSchemaProps) []string {
	var out []string
	for k, p := range s.Properties {
		if p.Description == "" && path+"."+k != ".metadata" {
			out = append(out, path+"."+k)
		}
		out = append(out, silent(path+"."+k, &p)...)
	}
	if s.Items != nil {
		out = append(out, silent(path+"[]", s.Items.Schema)...)
	}
	return out
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if os.IsNotExist(err) && *update {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for s := bufio.NewScanner(bytes.NewReader(content)); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

func writeLines(t *testing.T, file string, lines []string) {
	t.Helper()
	slices.Sort(lines)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
