package helm

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// A kustomizationGuard looks through the kustomizations that a build uses, before the build, and
// refuses everything that would make kustomize load something that is not in the file
// system. It decodes as kustomize does, with kustomize's own functions, so that both
// see the same texts.
type kustomizationGuard struct {
	fs      filesys.FileSystem // in memory; it holds the bundle alone, below "/"
	factory *resmap.Factory
	seen    map[string]bool
	schema  bool // a kustomization chooses the schema of Kubernetes' API
	written bool // a kustomization was written in canonical form
}

func newGuard(fs filesys.FileSystem) *kustomizationGuard {
	factory := resmap.NewFactory(provider.NewDepProvider().GetResourceFactory())
	return &kustomizationGuard{fs: fs, factory: factory, seen: map[string]bool{}}
}

// kustomization checks the kustomization in a directory and everything that it leads
// to. plugins says that its resources configure generators, transformers or validators.
// kustomize itself reports what it cannot read, before it loads anything.
func (g *kustomizationGuard) kustomization(dir string, plugins bool) error {
	key := fmt.Sprint(plugins, " ", dir)
	if g.seen[key] {
		return nil
	}
	g.seen[key] = true
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(dir, base)
		data, err := g.fs.ReadFile(name)
		if err != nil {
			continue
		}
		var k types.Kustomization
		if k.Unmarshal(data) != nil {
			continue
		}
		if err := g.checkKustomization(&k, dir, plugins); err != nil {
			return fmt.Errorf("%s: %w", inBundlePath(name), err)
		}
		if err := g.writeKustomization(name, data, &k); err != nil {
			return err
		}
	}
	return nil
}

// checkKustomization looks at all that a kustomization loads.
func (g *kustomizationGuard) checkKustomization(k *types.Kustomization, dir string, plugins bool) error {
	if len(k.HelmCharts)+len(k.HelmChartInflationGenerator) > 0 {
		return fmt.Errorf("helmCharts: %w", ErrProgram)
	}
	if plugins && !onlyResources(*k) {
		return ErrComputed
	}
	g.schema = g.schema || len(k.OpenAPI) > 0
	for _, l := range loadsOf(k) {
		if err := g.checkLoad(l, dir, plugins); err != nil {
			return err
		}
	}
	for key, text := range k.OpenAPI {
		if isRemote(text) {
			return remote(text)
		}
		k.OpenAPI[key] = asPath(text)
	}
	return nil
}

// onlyResources reports whether a kustomization passes its resources on as they
// are.
func onlyResources(k types.Kustomization) bool {
	k.TypeMeta, k.MetaData, k.Resources, k.Bases = types.TypeMeta{}, nil, nil, nil //nolint:staticcheck // kustomize acts on deprecated fields
	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() && (f.Kind() != reflect.Slice && f.Kind() != reflect.Map || f.Len() > 0) {
			return false
		}
	}
	return true
}

// A loadKind says how kustomize uses a text that names something to load.
type loadKind int

const (
	asData    loadKind = iota // reads the file
	asSource                  // the same; a name and "=" may be in front of the path
	asPatch                   // takes it for a patch, or reads the file
	asBuild                   // reads the file, or builds the directory
	asPlugins                 // takes it for configurations, reads the file, or builds the directory
)

// A load is a text in a kustomization that kustomize loads something by.
type loadedText struct {
	text *string
	kind loadKind
}

// loadsOf lists what a kustomization loads, except for openapi. A test compares
// it with all fields that kustomize's types have.
func loadsOf(k *types.Kustomization) []loadedText {
	var out []loadedText
	all := func(list []string, kind loadKind) {
		for i := range list {
			out = append(out, loadedText{&list[i], kind})
		}
	}
	for _, list := range [][]string{k.Resources, k.Bases, k.Components} { //nolint:staticcheck // kustomize acts on deprecated fields
		all(list, asBuild)
	}
	for _, list := range [][]string{k.Generators, k.Transformers, k.Validators} {
		all(list, asPlugins)
	}
	all(k.Crds, asData)
	all(k.Configurations, asData)
	for _, list := range [][]types.Patch{k.Patches, k.PatchesJson6902} { //nolint:staticcheck // kustomize acts on deprecated fields
		for i := range list {
			out = append(out, loadedText{&list[i].Path, asData})
		}
	}
	merges := k.PatchesStrategicMerge //nolint:staticcheck // kustomize acts on deprecated fields
	for i := range merges {
		out = append(out, loadedText{(*string)(&merges[i]), asPatch})
	}
	for i := range k.Replacements {
		out = append(out, loadedText{&k.Replacements[i].Path, asData})
	}
	for i := range k.ConfigMapGenerator {
		out = append(out, loadsOfPairs(&k.ConfigMapGenerator[i].KvPairSources)...)
	}
	for i := range k.SecretGenerator {
		out = append(out, loadsOfPairs(&k.SecretGenerator[i].KvPairSources)...)
	}
	return out
}

func loadsOfPairs(p *types.KvPairSources) []loadedText {
	out := []loadedText{{&p.EnvSource, asData}}
	for i := range p.EnvSources {
		out = append(out, loadedText{&p.EnvSources[i], asData})
	}
	for i := range p.FileSources {
		out = append(out, loadedText{&p.FileSources[i], asSource})
	}
	return out
}

// checkLoad checks one entry of a kustomization that kustomize would load. It rewrites a
// path so that kustomize cannot read it as a URL, and checks the files behind the path.
func (g *kustomizationGuard) checkLoad(l loadedText, dir string, plugins bool) error {
	text := *l.text
	name, source, named := strings.Cut(text, "=")
	switch {
	case isRemote(text):
		return remote(text)
	case l.kind == asSource && named:
		if isRemote(source) {
			return remote(source)
		}
		*l.text = name + "=" + asPath(source)
		return nil
	case l.kind == asPlugins || l.kind == asPatch:
		if inline, err := g.factory.NewResMapFromBytes([]byte(text)); err == nil {
			if l.kind == asPatch {
				return nil
			}
			return g.plugins(inline)
		}
	}
	*l.text = asPath(text)
	switch l.kind {
	case asBuild:
		return g.checkPath(text, dir, plugins)
	case asPlugins:
		return g.checkPath(text, dir, true)
	}
	return nil
}

// checkPath checks what a path leads to: a directory, or a file with configurations.
func (g *kustomizationGuard) checkPath(text, dir string, plugins bool) error {
	if !path.IsAbs(text) {
		text = path.Join(dir, text)
	}
	in, file, err := g.fs.CleanedAbs(text)
	switch {
	case err != nil:
		return nil // it is not there; kustomize reports that
	case file == "":
		return g.kustomization(in.String(), plugins)
	case !plugins:
		return nil
	}
	data, err := g.fs.ReadFile(in.Join(file))
	if err != nil {
		return nil
	}
	configs, err := g.factory.NewResMapFromBytes(data)
	if err != nil {
		return nil // kustomize cannot read it either
	}
	if err := g.plugins(configs); err != nil {
		return fmt.Errorf("%s: %w", inBundlePath(in.Join(file)), err)
	}
	return nil
}

// plugins checks configurations of kustomize's own generators and transformers.
// It refuses others itself: they are programs, and the build has them off.
func (g *kustomizationGuard) plugins(configs resmap.ResMap) error {
	for _, r := range configs.Resources() {
		if r.GetKind() == "HelmChartInflationGenerator" {
			return fmt.Errorf("%s: %w", r.GetKind(), ErrProgram)
		}
		data, err := r.AsYAML()
		if err != nil {
			return fmt.Errorf("read the configuration of a %s: %w", r.GetKind(), err)
		}
		for _, l := range pluginLoads(r.GetKind(), data) {
			if err := g.checkLoad(l, "", false); err != nil {
				return err
			}
		}
	}
	return nil
}

// pluginLoads lists what the configuration of one of kustomize's own generators
// and transformers loads. A configuration that does not fit its type is none:
// kustomize refuses it before it loads anything.
func pluginLoads(kind string, config []byte) []loadedText {
	var out []loadedText
	switch kind {
	case "PatchTransformer", "PatchJson6902Transformer":
		var c types.Patch
		_ = yaml.Unmarshal(config, &c)
		out = append(out, loadedText{&c.Path, asData})
	case "PatchStrategicMergeTransformer":
		var c struct {
			Paths []types.PatchStrategicMerge `json:"paths,omitempty"`
		}
		_ = yaml.Unmarshal(config, &c)
		for i := range c.Paths {
			out = append(out, loadedText{(*string)(&c.Paths[i]), asPatch})
		}
	case "ReplacementTransformer":
		var c struct {
			Replacements []types.ReplacementField `json:"replacements,omitempty"`
		}
		_ = yaml.Unmarshal(config, &c)
		for i := range c.Replacements {
			out = append(out, loadedText{&c.Replacements[i].Path, asData})
		}
	case "ConfigMapGenerator", "SecretGenerator":
		var c types.KvPairSources
		_ = yaml.Unmarshal(config, &c)
		out = loadsOfPairs(&c)
	case "ValueAddTransformer":
		var c struct {
			TargetFilePath string `json:"targetFilePath,omitempty"`
		}
		_ = yaml.Unmarshal(config, &c)
		out = append(out, loadedText{&c.TargetFilePath, asData})
	}
	return out
}

// writeKustomization gives kustomize what was checked: a kustomization that is not written as
// kustomize's types are, or that has changed, in canonical form.
func (g *kustomizationGuard) writeKustomization(name string, data []byte, k *types.Kustomization) error {
	if readSame(data, k) {
		return nil
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return fmt.Errorf("%s: %w", inBundlePath(name), err)
	}
	g.written = true
	return g.fs.WriteFile(name, text)
}

// readSame reports whether a reader that minds the case of keys reads the same.
func readSame(data []byte, k *types.Kustomization) bool {
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return false
	}
	var strict types.Kustomization
	unknown, err := json.UnmarshalStrict(text, &strict)
	return err == nil && len(unknown) == 0 && reflect.DeepEqual(&strict, k)
}

// inBundlePath names a file of the file system as the bundle does.
func inBundlePath(name string) string { return strings.TrimPrefix(name, "/") }

func remote(address string) error {
	return fmt.Errorf("%q: %w", withoutUser(address), ErrRemote)
}
