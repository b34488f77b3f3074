package chart

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// Limits of a chart that is deployed by itself.
const (
	// MaxFiles is how many files it may have.
	MaxFiles = 10_000
	// MaxFilesBytes is how large they may be together, in bytes.
	MaxFilesBytes = 64 << 20
)

// Resources returns the files of a chart as they stand in a bundle that has nothing else,
// below dir: see Request.Dir. Links count as what they lead to, unless that is a directory.
//
// Errors: Terminal, InvalidChart, for files that are no chart or too many;
// others are those of files.
func Resources(dir string, files fs.FS) ([]fleet.BundleResource, error) {
	var out []fleet.BundleResource
	left, isChart := int64(MaxFilesBytes), false
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := fs.Stat(files, name)
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // a link that leads nowhere is no file
		}
		if len(out) == MaxFiles {
			return permanentf(ReasonInvalidChart, "the chart has more than %d files", MaxFiles)
		}
		data, err := readFile(files, name, left)
		if err != nil {
			return err
		}
		left -= int64(len(data))
		r, err := content.Resource(path.Join(dir, name), data, false)
		if err != nil {
			return permanentf(ReasonInvalidChart, "file %s of the chart cannot be kept: %s", quotedLine(name), err)
		}
		isChart = isChart || path.Base(name) == "Chart.yaml" && strings.Count(name, "/") <= 1
		out = append(out, r)
		return nil
	})
	if err == nil && !isChart {
		err = permanentf(ReasonInvalidChart, "what came is no chart: there is no Chart.yaml in it")
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func readFile(files fs.FS, name string, limit int64) (data []byte, err error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read file %s of the chart: %w", quotedLine(name), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("read file %s of the chart: %w", quotedLine(name), err)
	}
	if int64(len(data)) > limit {
		return nil, permanentf(ReasonInvalidChart, "the chart's files are larger than %d MiB together", MaxFilesBytes>>20)
	}
	return data, nil
}
