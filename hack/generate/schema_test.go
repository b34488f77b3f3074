package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const repository = "../.."

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, fleetYAMLSchema))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fleet.yaml.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("fleet.yaml.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func check(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}

// The schema in the repository is the one that is made of the types. If not:
// go run ./hack/generate.
func TestSchemaIsCurrent(t *testing.T) {
	want, err := fleetYAMLText(repository)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(repository, fleetYAMLSchema))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is stale; run go run ./hack/generate", fleetYAMLSchema)
	}
}

func TestSchemaOfExamples(t *testing.T) {
	schema := compiled(t)
	files, err := filepath.Glob(filepath.Join(repository, "examples/*/fleet.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(t, schema, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSchema(t *testing.T) {
	schema := compiled(t)
	cases := map[string]struct {
		why, text string
		wrong     string // what the message names; empty: the file is right
	}{
		"Empty":     {text: "{}"},
		"Comment":   {why: "a file of comments is nothing at all", text: "# later\n"},
		"Override":  {why: "an empty list says something", text: "overrideTargets: []"},
		"Values":    {why: "they belong to the chart", text: "helm: {values: {any: {thing: [1]}}, templateValues: {a: b}}"},
		"Scan":      {text: "imageScans: [{image: a, tagName: b, interval: 5m}]"},
		"Limits":    {text: "rolloutStrategy: {maxUnavailable: 10%, autoPartitionSize: 5}"},
		"Null":      {why: "as in the API", text: "helm:\ntargetCustomizations:\n"},
		"Depends":   {text: "dependsOn: [{name: a, acceptedStates: [Ready, Modified]}]"},
		"Typo":      {text: "targetCustomisations: []", wrong: "targetCustomisations"},
		"TypoBelow": {text: "targetCustomizations: [{helm: {valuesFile: a}}]", wrong: "valuesFile"},
		"Type":      {text: "helm: {timeoutSeconds: soon}", wrong: "timeoutSeconds"},
		"Kind":      {text: "helm: chart", wrong: "helm"},
		"Mode":      {text: "targetCustomizationMode: Some", wrong: "targetCustomizationMode"},
		"Release":   {text: "helm: {releaseName: A_B}", wrong: "releaseName"},
		"Interval":  {text: "imageScans: [{image: a, tagName: b, interval: 5d}]", wrong: "interval"},
		"NoTag":     {text: "imageScans: [{image: a}]", wrong: "tagName"},
		"State":     {text: "dependsOn: [{name: a, acceptedStates: [Fine]}]", wrong: "acceptedStates"},
		"Internal":  {why: "Fleet's own keys are not offered", text: "contentsId: a", wrong: "contentsId"},
		"Below":     {text: "targetCustomizations: [{overwrites: []}]", wrong: "overwrites"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := check(t, schema, []byte(c.text))
			switch {
			case c.wrong == "" && err != nil:
				t.Errorf("%s: %v", c.why, err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%s: want a word about %s, got %v", c.why, c.wrong, err)
			}
		})
	}
}

// The tables in docs/fleet-yaml.md are those that are made of the schema, and have
// each key of it. If not: go run ./hack/generate.
func TestReferenceIsCurrent(t *testing.T) {
	text, err := fleetYAMLText(repository)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(repository, fleetYAMLPage))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withKeys(string(page), text)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Error("docs/fleet-yaml.md is not what the schema says: go run ./hack/generate")
	}
	for _, key := range []string{"helm.valuesFrom[].secretKeyRef.key", "rolloutStrategy.partitions[].maxUnavailable", "targetCustomizations[].doNotDeploy", "diff.comparePatches[].operations[].op"} {
		if !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("docs/fleet-yaml.md has no row for %s", key)
		}
	}
}

// docs/takeover.yaml is what is made of the chart fleet. If not: go run
// ./hack/generate.
func TestTakeoverManifestIsCurrent(t *testing.T) {
	want, err := takeoverText()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(repository, takeoverManifest))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(got) {
		t.Error("docs/takeover.yaml is not what the chart says: go run ./hack/generate")
	}
}
