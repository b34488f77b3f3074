package helm

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// chartOutput is the file under which a kustomization finds what the chart
// rendered.
const chartOutput = "fleet-manifests.yaml"

// schemas guards the schema of Kubernetes' API that kustomize merges by: the
// process has one, and a kustomization may choose another one.
var schemas sync.RWMutex

// kustomize runs the kustomization of a bundle over what its chart rendered.
// It reads nothing but the bundle's files: the file system holds nothing else, a
// guard has looked at every text that kustomize loads something by, and plugins
// are off (ErrRemote, ErrProgram, ErrComputed).
func kustomize(p bundleFiles, rendered []renderedObject) ([]renderedObject, error) {
	fs, dir, err := kustomizeFiles(p, rendered)
	if err != nil {
		return nil, err
	}
	result, err := build(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
	}
	source := path.Join(p.kustomize, kustomizeFile)
	var out []renderedObject
	for _, r := range result.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("kustomize %q: %w", p.kustomize, err)
		}
		out = append(out, renderedObject{Unstructured: o, source: source})
	}
	return out, nil
}

// kustomizeFiles is a file system with the files of a bundle and what its chart
// rendered, and the directory of the kustomization in it.
func kustomizeFiles(p bundleFiles, rendered []renderedObject) (fs filesys.FileSystem, dir string, err error) {
	dir = path.Join("/", p.kustomize)
	fs = filesys.MakeFsInMemory()
	for _, f := range p.files {
		if err := fs.WriteFile("/"+f.name, f.data); err != nil {
			return nil, "", fmt.Errorf("kustomize: file %q: %w", f.name, err)
		}
	}
	if len(rendered) == 0 {
		return fs, dir, nil
	}
	data, err := render(rendered)
	if err != nil {
		return nil, "", err
	}
	if err := addResource(fs, dir, data); err != nil {
		return nil, "", fmt.Errorf("kustomize %q: %w", p.kustomize, err)
	}
	return fs, dir, nil
}

// CheckKustomizations returns why agents refuse a kustomization of a bundle's files, with
// any of these options: an error that wraps ErrRemote, ErrProgram or ErrComputed. It
// returns nil if they accept all of them, if there is none, or if the files cannot be
// read.
func CheckKustomizations(m content.Manifest, options ...*fleet.KustomizeOptions) error {
	if !slices.ContainsFunc(m.Resources, func(r fleet.BundleResource) bool { return path.Base(r.Name) == kustomizeFile }) {
		return nil // most bundles, and nothing has to be unpacked to know it
	}
	files, err := unpackFiles(m)
	if err != nil {
		return nil // agents report it as bad content
	}
	var dirs []string
	for _, o := range options {
		if dir := kustomization(files, o); dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		fs := filesys.MakeFsInMemory() // of its own: the guard writes to it
		for _, f := range files {
			if fs.WriteFile("/"+f.name, f.data) != nil {
				return nil
			}
		}
		err := newGuard(fs).kustomization(path.Join("/", dir), false)
		if errors.Is(err, ErrRemote) || errors.Is(err, ErrProgram) || errors.Is(err, ErrComputed) {
			return err
		}
	}
	return nil
}

// build runs the kustomization in a directory, once the guard has passed it. dir
// is absolute: kustomize takes no such text for an address.
func build(fs filesys.FileSystem, dir string) (resmap.ResMap, error) {
	g := newGuard(fs)
	if err := g.kustomization(dir, false); err != nil {
		return nil, err
	}
	if g.written { // what was written may be read as something else, too
		g = newGuard(fs)
		if err := g.kustomization(dir, false); err != nil {
			return nil, err
		}
	}
	if g.schema {
		schemas.Lock()
		defer schemas.Unlock()
		defer openapi.ResetOpenAPI()
	} else {
		schemas.RLock()
		defer schemas.RUnlock()
	}
	opts := krusty.MakeDefaultOptions()
	opts.LoadRestrictions = types.LoadRestrictionsRootOnly
	opts.PluginConfig = types.DisabledPluginConfig()
	return krusty.MakeKustomizer(opts).Run(fs, dir)
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
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		return err
	}
	if slices.Contains(k.Resources, chartOutput) {
		return nil
	}
	k.Resources = append([]string{chartOutput}, k.Resources...)
	if text, err = yaml.Marshal(k); err != nil {
		return err
	}
	return fs.WriteFile(name, text)
}
