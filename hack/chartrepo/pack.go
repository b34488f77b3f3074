package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/klauspost/compress/gzip"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"
)

// A chartPackage is one chart that is about to be packed.
type chartPackage struct {
	chart *chart.Chart
	files []*chart.File // as they are in the chart's folder
}

// read reads a chart as Helm does, without what its .helmignore names.
func read(dir string) (chartPackage, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return chartPackage{}, err
	}
	return chartPackage{chart: c, files: slices.Clone(c.Raw)}, c.Validate()
}

// rancherLine is what the first number of a version is raised by for Rancher. Its
// own charts began with 100 and count one up for each of its minor versions.
const rancherLine = 1000

// number gives the chart its version, and with rancher one above Rancher's line.
func (p chartPackage) number(version *semver.Version, rancher bool) error {
	m := p.chart.Metadata
	if version != nil {
		m.Version, m.AppVersion = version.String(), version.String()
	}
	if !rancher {
		return nil
	}
	v, err := semver.StrictNewVersion(m.Version)
	if err != nil {
		return fmt.Errorf("version %q: %w", m.Version, err)
	}
	m.Version = semver.New(v.Major()+rancherLine, v.Minor(), v.Patch(), v.Prerelease(), "up"+v.String()).String()
	return nil
}

// fileName is how Helm names the package.
func (p chartPackage) fileName() string {
	return fmt.Sprintf("%s-%s.tgz", p.chart.Metadata.Name, p.chart.Metadata.Version)
}

// pack is the package: files sorted by name, all of one time and owner.
func (p chartPackage) pack(at time.Time) ([]byte, error) {
	metadata, err := yaml.Marshal(p.chart.Metadata)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(p.files, func(a, b *chart.File) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(zip)
	for _, f := range p.files {
		data := f.Data
		if f.Name == "Chart.yaml" {
			data = metadata
		}
		h := &tar.Header{
			Name: path.Join(p.chart.Name(), f.Name), Mode: 0o644, Size: int64(len(data)), ModTime: at,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if err := out.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := out.Write(data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	err = zip.Close()
	return b.Bytes(), err
}
