package helm

import (
	"fmt"
	"io/fs"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Template renders a chart from a file system without a cluster, as "helm
// template" does: hooks included, crds folder not. kubeVersion is what
// templates see, for example "v1.36.0"; empty is Helm's default.
func Template(chart fs.FS, name, namespace, kubeVersion string, values map[string]any) (string, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(chart, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(chart, path)
		files = append(files, &loader.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read chart: %w", err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return "", fmt.Errorf("load chart: %w", err)
	}
	in := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	in.ReleaseName, in.Namespace = name, namespace
	in.ClientOnly, in.DryRun = true, true
	if kubeVersion != "" {
		if in.KubeVersion, err = chartutil.ParseKubeVersion(kubeVersion); err != nil {
			return "", fmt.Errorf("kubernetes version %q: %w", kubeVersion, err)
		}
	}
	r, err := in.Run(c, values)
	if err != nil {
		return "", fmt.Errorf("render chart %s: %w", c.Name(), err)
	}
	var out strings.Builder
	out.WriteString(r.Manifest)
	for _, h := range r.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
	}
	return out.String(), nil
}
