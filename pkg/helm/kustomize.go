package helm

import (
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// chartOutput is the file under which a kustomization finds what the chart
// rendered.
const chartOutput = "fleet-manifests.yaml"

// kustomize runs the kustomization of a bundle over what its chart rendered.
// It reads nothing but the bundle's files: plugins are off, no file outside of
// the kustomization's root is loaded, and what would be downloaded or cloned is
// refused (ErrRemote).
func kustomize(p parts, rendered []object) ([]object, error) {
	fs := filesys.MakeEmptyDirInMemory()
	for _, f := range p.files {
		if err := fs.WriteFile(f.name, f.data); err != nil {
			return nil, fmt.Errorf("kustomize: file %q: %w", f.name, err)
		}
	}
	files := p.files
	if len(rendered) > 0 {
		data, err := render(rendered)
		if err != nil {
			return nil, err
		}
		if err := addResource(fs, p.kustomize, data); err != nil {
			return nil, err
		}
		files = append(slices.Clone(files), file{name: path.Join(p.kustomize, chartOutput), data: data})
	}
	if err := local(files, p.kustomize); err != nil {
		return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
	}
	opts := krusty.MakeDefaultOptions()
	opts.LoadRestrictions = types.LoadRestrictionsRootOnly
	opts.PluginConfig = types.DisabledPluginConfig()
	result, err := krusty.MakeKustomizer(opts).Run(fs, p.kustomize)
	if err != nil {
		return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
	}
	source := path.Join(p.kustomize, kustomizeFile)
	var out []object
	for _, r := range result.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
		}
		out = append(out, object{Unstructured: o, source: source})
	}
	return out, nil
}

// addResource puts the chart's output before the other resources of a
// kustomization, unless that names it itself.
func addResource(fs filesys.FileSystem, dir string, data []byte) error {
	if err := fs.WriteFile(path.Join(dir, chartOutput), data); err != nil {
		return err
	}
	name := path.Join(dir, kustomizeFile)
	text, err := fs.ReadFile(name)
	if err != nil {
		return err
	}
	doc := map[string]any{}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	resources, _ := doc["resources"].([]any)
	if slices.Contains(resources, any(chartOutput)) {
		return nil
	}
	doc["resources"] = append([]any{chartOutput}, resources...)
	if text, err = yaml.Marshal(doc); err != nil {
		return err
	}
	return fs.WriteFile(name, text)
}
