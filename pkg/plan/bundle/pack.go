package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// packChart makes the archive of a chart: all files below a directory of its name,
// in order, without times, owners and modes, so that the same files always give
// the same bytes.
func packChart(name string, files []file, limit int64) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, f := range files {
		data, err := f.bytes(limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, f.name), Size: int64(len(data)), Mode: 0o644})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// archiveLimit bounds how far an archive is unpacked to find its Chart.yaml.
const archiveLimit = 64 << 20

// chartOf reads Chart.yaml of a packaged chart, which stands in a directory.
// unpacked is how many bytes it took to find it.
func chartOf(archive []byte) (data []byte, unpacked int64, err error) {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, 0, errors.New("it is not a gzip archive")
	}
	bounded := &io.LimitedReader{R: zip, N: archiveLimit}
	defer func() { unpacked = archiveLimit - bounded.N }()
	r := tar.NewReader(bounded)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, 0, errors.New("there is no Chart.yaml in it")
		}
		if err != nil {
			return nil, 0, errors.New("it is not a tar archive")
		}
		name := strings.ReplaceAll(header.Name, `\`, "/")
		if dir, base, ok := strings.Cut(strings.TrimPrefix(name, "./"), "/"); !ok || dir == "" || base != chartFile || header.Typeflag != tar.TypeReg {
			continue
		}
		if header.Size > chartBytes {
			return nil, 0, errors.New("its Chart.yaml is too large")
		}
		data, err = io.ReadAll(io.LimitReader(r, chartBytes))
		return data, 0, err
	}
}
