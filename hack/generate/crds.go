package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// crdDir is where the chart expects its templates.
const crdDir = "charts/fleet-crd/templates"

const crdHeader = "# Generated from pkg/apis by hack/generate. Do not edit.\n"

// crds makes one template per kind, and removes those of kinds that are gone.
func crds(root string) error {
	raw, err := os.MkdirTemp("", "fleet-crds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(raw)
	if err := controllerGen(root, "crd", "paths=./pkg/apis/fleet.cattle.io/...", "output:crd:dir="+raw); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(raw, "*.yaml"))
	if err != nil {
		return err
	}
	var made []string
	for _, f := range files {
		name, err := finish(f, filepath.Join(root, crdDir))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
		made = append(made, name)
	}
	return removeOthers(filepath.Join(root, crdDir), made)
}

// finish turns the generator's file into ours, and returns its name.
func finish(file, dir string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var crd apiext.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &crd); err != nil {
		return "", err
	}
	crd.Annotations = map[string]string{
		fleet.AnnotationCRDRevision: strconv.Itoa(fleet.CRDRevision),
	}
	for i := range crd.Spec.Versions {
		schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		acceptNull(schema, "apiVersion", "kind", "metadata")
	}
	out, err := yaml.Marshal(shape{crd.APIVersion, crd.Kind,
		meta{crd.Name, crd.Annotations}, crd.Spec})
	if err != nil {
		return "", err
	}
	if strings.Contains(string(out), "{{") {
		return "", fmt.Errorf("a description contains {{, which Helm would read as a template")
	}
	name := crd.Spec.Names.Plural + ".yaml"
	return name, write(filepath.Join(dir, name), []byte(crdHeader+keep(string(out))))
}

// annotations is where a CRD's annotations begin: the first such line is the
// CRD's own.
const annotations = "  annotations:\n"

// keep adds what lets Helm keep a CRD when the chart is uninstalled, unless the
// chart's value keep is false. The conditions stand in comments, so that the file
// is YAML for those who read it without Helm.
func keep(crd string) string {
	return strings.Replace(crd, annotations, annotations+`    # {{- if .Values.keep }}
    helm.sh/resource-policy: keep
    # {{- end }}
`, 1)
}

// shape is a CustomResourceDefinition without what only the API server writes.
type shape struct {
	APIVersion string                              `json:"apiVersion"`
	Kind       string                              `json:"kind"`
	Metadata   meta                                `json:"metadata"`
	Spec       apiext.CustomResourceDefinitionSpec `json:"spec"`
}

type meta struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
}

// acceptNull lets every optional property take an explicit null, as the package
// comment of the API promises. Left alone: what is required, what has a default
// (the API server drops the null and fills it in), what is one of a list of
// words, and the properties named in except.
func acceptNull(s *apiext.JSONSchemaProps, except ...string) {
	for name, p := range s.Properties {
		if !slices.Contains(except, name) {
			if !slices.Contains(s.Required, name) && p.Default == nil && len(p.Enum) == 0 {
				p.Nullable = true
			}
			acceptNull(&p)
		}
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		acceptNull(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		acceptNull(s.AdditionalProperties.Schema)
	}
}

func removeOthers(dir string, keep []string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !slices.Contains(keep, filepath.Base(f)) {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}
