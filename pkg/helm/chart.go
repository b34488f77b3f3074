package helm

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Names of files that decide how a bundle is deployed.
const (
	chartFile     = "Chart.yaml"
	kustomizeFile = "kustomization.yaml"
)

// file is one unpacked file of a bundle.
type file struct {
	name string
	data []byte
}

// bundleFiles are a bundle's files, sorted by what becomes of them.
type bundleFiles struct {
	chart     *chart.Chart // rendered by Helm's engine
	raw       []file       // manifests as they are
	kustomize string       // directory of the kustomization, empty if there is none
	files     []file       // all files, for the kustomization
}

// partsOf makes a chart of a bundle's files: their own if they have one, else a
// generated one with the templates of a templates folder. All other manifests stay as
// they are, except for the overlays that the options name.
func partsOf(d Deployment) (bundleFiles, error) {
	files, err := unpackFiles(d.Content)
	if err != nil {
		return bundleFiles{}, reconcile.TerminalError(release.ReasonBadContent, err)
	}
	p := bundleFiles{files: files}
	dir, own := chartDir(files, d.helm())
	p.kustomize = kustomization(files, d.Options.Kustomize)
	var chartFiles []*loader.BufferedFile
	switch {
	case own:
		chartFiles = filesBelow(files, dir)
	case p.kustomize == "":
		var overlays []string
		if d.Options.YAML != nil {
			overlays = d.Options.YAML.Overlays
		}
		manifests, err := overlaid(files, overlays)
		if err != nil {
			return bundleFiles{}, err
		}
		chartFiles, p.raw = splitPlain(manifests)
	}
	if !own {
		chartFiles = append(chartFiles, &loader.BufferedFile{Name: chartFile, Data: generated(d)})
	}
	if p.chart, err = loader.LoadFiles(chartFiles); err != nil {
		return bundleFiles{}, reconcile.TerminalError(release.ReasonBadChart, fmt.Errorf("load chart: %w", err))
	}
	if !d.helm().SkipSchemaValidation {
		err = checkSchemas(p.chart)
	}
	return p, err
}

func unpackFiles(m content.Manifest) ([]file, error) {
	out := make([]file, 0, len(m.Resources))
	for i, r := range m.Resources {
		if r.Name == "" { // as rancher/fleet calls it
			r.Name = fmt.Sprintf("manifests/file%03d.yaml", i)
		}
		data, err := content.ResourceBytes(r)
		if err != nil {
			return nil, fmt.Errorf("unpack file %q: %w", r.Name, err)
		}
		out = append(out, file{name: r.Name, data: data})
	}
	return out, nil
}

// chartDir finds the chart that is to be deployed: in the directory that
// helm.chart names, at the root where it names none, or among the charts that
// were downloaded.
func chartDir(files []file, o fleet.HelmOptions) (dir string, found bool) {
	named := o.Chart
	if named == "" {
		named = o.Repo
	}
	local := strings.TrimPrefix(path.Join(named, chartFile), "/")
	downloaded := naming.ChartDir(o.Chart, o.Repo, o.Version) + "/"
	for _, f := range files {
		if f.name == local {
			return path.Dir(local), true
		}
		if rest, ok := strings.CutPrefix(f.name, downloaded); ok && chartAtTop(rest) {
			return path.Dir(f.name), true
		}
	}
	return "", false
}

// chartAtTop reports whether a file below a downloaded chart's folder is its
// Chart.yaml, with or without a folder of the chart's name around it.
func chartAtTop(name string) bool {
	dir, base := path.Split(name)
	return base == chartFile && strings.Count(dir, "/") <= 1
}

// kustomization is the directory with the kustomization to run, if any.
func kustomization(files []file, o *fleet.KustomizeOptions) string {
	dir := "."
	if o != nil && o.Dir != "" {
		dir = strings.TrimPrefix(path.Clean(o.Dir), "/")
	}
	for _, f := range files {
		if f.name == path.Join(dir, kustomizeFile) {
			return dir
		}
	}
	return ""
}

// filesBelow returns the files in a directory, named from there.
func filesBelow(files []file, dir string) []*loader.BufferedFile {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	var out []*loader.BufferedFile
	for _, f := range files {
		if name, ok := strings.CutPrefix(f.name, prefix); ok {
			out = append(out, &loader.BufferedFile{Name: name, Data: f.data})
		}
	}
	return out
}

// splitPlain splits a bundle without chart and kustomization into templates and
// manifests. Directories that are bundles or charts of their own are left out,
// and so is everything that is neither YAML nor JSON.
func splitPlain(files []file) (templates []*loader.BufferedFile, raw []file) {
	nested := map[string]bool{}
	for _, f := range files {
		if dir, base := path.Split(f.name); dir != "" && (base == chartFile || isFleetYAML(base)) {
			nested[dir] = true
		}
	}
	for _, f := range files {
		switch {
		case !isManifest(f.name), isFleetYAML(f.name), inAny(nested, f.name):
		case strings.HasPrefix(f.name, "templates/"):
			templates = append(templates, &loader.BufferedFile{Name: f.name, Data: f.data})
		default:
			raw = append(raw, f)
		}
	}
	return templates, raw
}

func isFleetYAML(name string) bool { return name == "fleet.yaml" || name == "fleet.yml" }

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func inAny(dirs map[string]bool, name string) bool {
	for dir := range dirs {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// generated is the Chart.yaml of a bundle that brings none.
func generated(d Deployment) []byte {
	version := naming.ChartVersion(d.Memory.Commit, content.ID(d.Content))
	return fmt.Appendf(nil, "apiVersion: v2\nname: %q\nversion: %q\n", path.Base(d.Memory.Owner.BundleID), version)
}
