package dump

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxNameBytes is the longest name of a file in the archive, as most file systems have it.
const maxNameBytes = 255

// fileName joins the parts of a file's name with _. It has letters, digits, - . and _ only, begins with none
// of - and ., and has at most 255 bytes. A name that had to be changed for that ends with a digest of what it
// was, so that two of them are never the same.
func fileName(parts ...string) string {
	whole := strings.Join(parts, "_")
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-._", r):
			return r
		}
		return '_'
	}, whole)
	if safe == "" || strings.ContainsRune("-.", rune(safe[0])) {
		safe = "_" + safe
	}
	if safe == whole && len(safe) <= maxNameBytes {
		return safe
	}
	sum := sha256.Sum256([]byte(whole))
	mark := "_" + hex.EncodeToString(sum[:6])
	return safe[:min(len(safe), maxNameBytes-len(mark))] + mark
}

// An archive is a flat tar.gz that is written under a temporary name beside its own.
type archive struct {
	path  string
	at    time.Time // of all files in it
	file  *os.File
	gzip  *gzip.Writer
	tar   *tar.Writer
	files int
}

// createArchive begins an archive that only its owner may read. A file that exists is not overwritten.
func createArchive(path string, at time.Time) (*archive, error) {
	if err := mustNotExist(path); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".fleet-dump-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	z := gzip.NewWriter(f)
	return &archive{path: path, at: at, file: f, gzip: z, tar: tar.NewWriter(z)}, nil
}

func mustNotExist(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s exists; remove it, or choose another --dump-path", path)
		}
		return err
	}
	return nil
}

// add writes one file. An error is one of the archive itself, after which it is useless.
func (a *archive) add(name string, data []byte) error {
	return a.addFrom(name, int64(len(data)), strings.NewReader(string(data)))
}

func (a *archive) addFrom(name string, size int64, from io.Reader) error {
	a.files++
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size, ModTime: a.at})
	if err == nil {
		_, err = io.Copy(a.tar, from)
	}
	if err != nil {
		return &archiveError{err}
	}
	return nil
}

// addSpooled writes one file whose size is not known before: write writes it piece by piece. What was written
// before an error of write is kept.
func (a *archive) addSpooled(name string, write func(io.Writer) error) error {
	spool, err := os.CreateTemp(filepath.Dir(a.path), ".fleet-dump-part-*")
	if err != nil {
		return &archiveError{err}
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	failed := write(spool)
	size, err := spool.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return &archiveError{err}
	}
	if size > 0 || failed == nil {
		if err := a.addFrom(name, size, spool); err != nil {
			return err
		}
	}
	return failed
}

// finish gives the archive its name.
func (a *archive) finish() error {
	err := errors.Join(a.tar.Close(), a.gzip.Close(), a.file.Sync(), a.file.Close())
	if err == nil {
		err = mustNotExist(a.path)
	}
	if err == nil {
		err = os.Rename(a.file.Name(), a.path)
	}
	if err != nil {
		return &archiveError{err}
	}
	return nil
}

// abandon removes what was written. After finish it does nothing.
func (a *archive) abandon() {
	_ = a.file.Close()
	_ = os.Remove(a.file.Name())
}

// An archiveError is a failure to write the archive, as opposed to one to read a part of it.
type archiveError struct{ err error }

func (e *archiveError) Error() string { return "write archive: " + e.err.Error() }

func (e *archiveError) Unwrap() error { return e.err }
