// Package charts holds Fleet's Helm charts as they are in this folder, for
// programs that print or install them without a copy beside them.
package charts

import (
	"embed"
	"io/fs"
)

// Names of the charts.
const (
	Manager = "fleet"
	CRDs    = "fleet-crd"
	Agent   = "fleet-agent"
)

// all: Helm's own files begin with an underscore.
//
//go:embed all:fleet all:fleet-crd all:fleet-agent
var files embed.FS

// Files are the files of a chart, Chart.yaml at the root. The error is for a
// name that is none of the constants.
func Files(chart string) (fs.FS, error) {
	if _, err := fs.Stat(files, chart+"/Chart.yaml"); err != nil {
		return nil, err
	}
	return fs.Sub(files, chart)
}
