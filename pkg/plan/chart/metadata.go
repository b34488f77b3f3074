package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"
)

// maxChartYAML is how large a Chart.yaml may be, in bytes.
const maxChartYAML = 1 << 20

// metadata has the fields of Chart.yaml that identify a chart.
type metadata struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func parseMetadata(file string, data []byte, into *metadata) error {
	if len(data) > maxChartYAML {
		return permanentf(ReasonInvalidChart, "%s cannot be used: it is larger than 1 MiB", file)
	}
	if err := unmarshal(data, into); err != nil {
		return permanentf(ReasonInvalidChart, "%s cannot be used: %s", file, strings.TrimPrefix(firstLine(err.Error()), "error unmarshaling JSON: "))
	}
	return nil
}

// unmarshal reads YAML as rancher/fleet does. A parser that panics is no
// reason to end the program.
func unmarshal(data []byte, into any) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it cannot be read")
		}
	}()
	return yaml.Unmarshal(data, into)
}

// MetadataFile returns the Chart.yaml of a packed chart (.tgz), or nil if it has none in
// its first 64 MiB.
func MetadataFile(archive io.Reader) []byte {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return nil
	}
	t := tar.NewReader(io.LimitReader(z, 64<<20))
	for {
		h, err := t.Next()
		if err != nil {
			return nil
		}
		if top, rest, _ := strings.Cut(path.Clean(h.Name), "/"); rest != "Chart.yaml" || top == ".." || h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(t, maxChartYAML))
		if err != nil {
			return nil
		}
		return data
	}
}

// NameAndVersion returns what Chart.yaml says. Errors are Terminal, InvalidChart.
func NameAndVersion(chartYAML []byte) (name, version string, err error) {
	var m metadata
	if err := parseMetadata("Chart.yaml", bytes.TrimPrefix(chartYAML, []byte("\xef\xbb\xbf")), &m); err != nil {
		return "", "", err
	}
	if _, err := semver.NewVersion(m.Version); err != nil || !fileName(m.Name) {
		return "", "", permanentf(ReasonInvalidChart, "Chart.yaml cannot be used: name %s or version %s is none", quotedLine(m.Name), quotedLine(m.Version))
	}
	return m.Name, m.Version, nil
}
