package helm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A Templated is what a chart renders to, without a cluster.
type Templated struct {
	// Objects in the order in which Helm installs them, those of the folder crds
	// first. Each that a namespace holds says which.
	Objects []*unstructured.Unstructured
	// Hooks names what the chart wants to be run around an installation, as
	// "Kind name". It is not among the objects.
	Hooks []string
}

// Template renders the chart in files, which has Chart.yaml at its root, as `helm
// template` does: values are checked against the chart's schema, lookups find nothing,
// and no connection is made. It is not a bundle: nothing is marked or changed, except
// that namespaced objects without a namespace get the release's. Only the fields of o
// that show the cluster to the chart are used.
func Template(files fs.FS, id release.ID, values map[string]any, o RenderOptions) (Templated, error) {
	c, err := loadFS(files)
	if err != nil {
		return Templated{}, err
	}
	if err := checkSchemas(c); err != nil {
		return Templated{}, err
	}
	in, err := rendering(Deployment{ID: id}, o, nil)
	if err != nil {
		return Templated{}, err
	}
	done, err := in.Run(c, values)
	if err != nil {
		return Templated{}, fmt.Errorf("render chart %q: %w", c.Name(), err)
	}
	var out Templated
	for _, f := range c.CRDObjects() {
		if err := out.addObjects(string(f.File.Data), id.Namespace); err != nil {
			return Templated{}, fmt.Errorf("render chart %q: %s: %w", c.Name(), f.Filename, err)
		}
	}
	if err := out.addObjects(done.Manifest, id.Namespace); err != nil {
		return Templated{}, fmt.Errorf("render chart %q: %w", c.Name(), err)
	}
	for _, h := range done.Hooks {
		out.Hooks = append(out.Hooks, h.Kind+" "+h.Name)
	}
	return out, nil
}

// loadFS loads a chart from the root of a file system.
func loadFS(files fs.FS) (*chart.Chart, error) {
	var list []*loader.BufferedFile
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		list = append(list, &loader.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read chart: %w", err)
	}
	c, err := loader.LoadFiles(list)
	if err != nil {
		return nil, fmt.Errorf("load chart: %w", err)
	}
	return c, nil
}

// addObjects adds the objects of a stream of documents.
func (t *Templated) addObjects(text, namespace string) error {
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			return err
		}
		if len(u.Object) == 0 {
			continue
		}
		if u.GetNamespace() == "" && BuiltIn(u.GroupVersionKind().GroupKind()) {
			u.SetNamespace(namespace)
		}
		t.Objects = append(t.Objects, u)
	}
}
