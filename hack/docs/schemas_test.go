package docs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaFiles are all JSON schemas of the repository, relative to its root.
var schemaFiles = []string{"docs/cli/*.schema.json", "charts/*/values.schema.json", "schemas/*.json"}

// Each JSON schema of the repository is valid: it fits its meta-schema.
func TestSchemasAreValid(t *testing.T) {
	for _, pattern := range schemaFiles {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no file %s: %v", pattern, err)
		}
		for _, path := range paths {
			if _, err := jsonschema.NewCompiler().Compile(path); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// documentStart is where a document of a command may begin.
var documentStart = regexp.MustCompile(`(?m)^\{`)

// commandDocument is what all documents of commands have.
type commandDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Each document of a command that a golden file or a page shows fits the schema of
// its kind.
func TestDocumentsFitTheirSchemas(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	seen := 0
	for path, text := range goldenFiles(t) {
		for _, at := range documentStart.FindAllStringIndex(text, -1) {
			var raw json.RawMessage
			if err := json.NewDecoder(strings.NewReader(text[at[0]:])).Decode(&raw); err != nil {
				continue
			}
			var head commandDocument
			if err := json.Unmarshal(raw, &head); err != nil || head.APIVersion != "cli.fleet.cattle.io/v1" {
				continue
			}
			seen++
			schema, known := schemas[head.Kind]
			if !known {
				var err error
				if schema, err = compiler.Compile(filepath.Join(root, "docs", "cli", head.Kind+".schema.json")); err != nil {
					t.Fatal(err)
				}
				schemas[head.Kind] = schema
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %s: %v", path, head.Kind, err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d documents were found", seen)
	}
}

// goldenFiles are the files that show what commands print, with their texts.
func goldenFiles(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"cmd/fleet/testdata", "cmd/fleet-agent/testdata", "docs"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".schema.json") {
				return err
			}
			text, err := os.ReadFile(path)
			out[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
