package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"time"
)

// maxPacked is the limit for an unpacked chart; Helm does not read more.
const maxPacked = 100 << 20

// Pack makes a .tgz of the files of a directory, with prefix/ before their names, as
// charts are packed: the same bytes for the same names and contents, regardless of
// their times, modes and owners. Links are packed as what they lead to, if that is a
// file. More than 100 MiB are reconcile.Terminal, TooLarge.
func Pack(tree fs.FS, prefix string) ([]byte, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	z.OS = 255 // unknown
	t := tar.NewWriter(z)
	left := int64(maxPacked)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := readPart(tree, name, left)
		if err != nil {
			return err
		}
		if left -= int64(len(data)); left < 0 {
			return permanentf(ReasonTooLarge, "the chart cannot be packed: it is larger than %d MiB (at %s)", maxPacked>>20, quote(name))
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(prefix, name), Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(0, 0)}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// readPart reads a file, but not more than one byte beyond left.
func readPart(tree fs.FS, name string, left int64) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, permanentf(ReasonUnsafeArchive, "the chart cannot be packed: %s is neither a file nor a directory, nor a link to a file", quote(name))
	}
	return io.ReadAll(io.LimitReader(f, left+1))
}
