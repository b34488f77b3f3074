// Package archive unpacks untrusted archives into a directory, and packs charts. It
// refuses what would leave the directory or fill the disk, and entries that are neither
// a file, nor a directory, nor a link that stays inside.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of errors, all of them reconcile.Terminal.
const (
	ReasonInvalidArchive = "InvalidArchive" // damaged, or of a format that is not read
	ReasonUnsafeArchive  = "UnsafeArchive"  // it holds what is never needed and attackers use
	ReasonTooLarge       = "TooLarge"       // beyond a limit
)

// Limits bound what an archive may become. Zero fields mean the defaults.
type Limits struct {
	Files     int   // files, directories and links; 100,000
	Depth     int   // elements of a name; 64
	Bytes     int64 // of all files, unpacked; 1 GiB
	FileBytes int64 // of one file, unpacked; as Bytes
	Ratio     int64 // unpacked bytes for one packed byte, beyond the first 16 MiB; 200
	PathBytes int   // of a name, and of where a link leads; 1024
}

// freeBytes may come of any archive, however small: a few repetitive files
// have any ratio.
const freeBytes = 16 << 20

// maxLinks bounds the symbolic links of an archive: they are kept in memory
// until all else is there.
const maxLinks = 10_000

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = 100_000
	}
	if l.Depth <= 0 {
		l.Depth = 64
	}
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	if l.FileBytes <= 0 || l.FileBytes > l.Bytes {
		l.FileBytes = l.Bytes
	}
	if l.Ratio <= 0 {
		l.Ratio = 200
	}
	if l.PathBytes <= 0 {
		l.PathBytes = 1024
	}
	return l
}

// Options say what an archive is.
type Options struct {
	// Name is the name of the downloaded archive, such as the path of its URL: its
	// ending selects the format, its last element names the file of an archive that is
	// a single file. A name with no known ending is a plain file.
	Name string
	// Format replaces the ending of Name: "tar.gz", "zip", "gz", ...; "false" is a
	// plain file.
	Format string
	Limits Limits
}

// Stats say what was unpacked.
type Stats struct {
	Files int   // files, directories and links that the archive names
	Bytes int64 // of all files
}

// A format is how files are laid out, and how that is compressed.
type format struct {
	layout      string // "tar", "zip", "file"
	compression string // "", "gz", "bz2", "zst", "xz"
}

// endings are the formats by ending, longer ones first.
var endings = []struct {
	ending string
	format format
}{
	{".tar.gz", format{"tar", "gz"}},
	{".tgz", format{"tar", "gz"}},
	{".tar.bz2", format{"tar", "bz2"}},
	{".tbz2", format{"tar", "bz2"}},
	{".tar.zst", format{"tar", "zst"}},
	{".tar.zstd", format{"tar", "zst"}},
	{".tzst", format{"tar", "zst"}},
	{".tar.xz", format{"tar", "xz"}},
	{".txz", format{"tar", "xz"}},
	{".tar", format{"tar", ""}},
	{".zip", format{"zip", ""}},
	{".gz", format{"file", "gz"}},
	{".bz2", format{"file", "bz2"}},
	{".zst", format{"file", "zst"}},
	{".zstd", format{"file", "zst"}},
	{".xz", format{"file", "xz"}},
}

// formatOf is the format, and the name of the file of a "file".
func formatOf(o Options) (f format, file string, err error) {
	file = path.Base("/" + o.Name)
	if file == "/" || file == "." || file == ".." {
		file = "file"
	}
	report := "." + strings.ToLower(strings.TrimPrefix(o.Format, "."))
	if o.Format == "" {
		report = strings.ToLower(file)
	}
	for _, e := range endings {
		if !strings.HasSuffix(report, e.ending) {
			continue
		}
		if e.format.layout == "file" && strings.HasSuffix(strings.ToLower(file), e.ending) && len(file) > len(e.ending) {
			file = file[:len(file)-len(e.ending)]
		}
		return e.format, file, nil
	}
	if o.Format != "" && report != ".false" {
		return f, "", permanentf(ReasonInvalidArchive, "archives of format %q are not read", o.Format)
	}
	return format{layout: "file"}, file, nil
}

// Unpack writes what an archive of size bytes holds into a directory, which must be
// empty; after an error its content is undefined. Memory does not depend on the size.
// Files have mode 0644, or 0755 if the entry is executable by anyone; directories have
// 0755.
//
// Errors: reconcile.Terminal (InvalidArchive, UnsafeArchive, TooLarge) is the
// archive's fault; the error of ctx if that has ended; anything else is a fault
// of src or of the disk.
func Unpack(ctx context.Context, src io.ReaderAt, size int64, o Options, into *os.Root) (Stats, error) {
	f, file, err := formatOf(o)
	if err != nil {
		return Stats{}, err
	}
	l := o.Limits.withDefaults()
	u := &unpacking{ctx: ctx, root: into, limits: l, packed: size, names: map[nameKey]seenEntry{}}
	if u.left = l.Bytes; size < (l.Bytes-freeBytes)/l.Ratio {
		u.left, u.byRatio = freeBytes+size*l.Ratio, true
	}
	in := &source{ctx: ctx, src: src, size: size}
	switch f.layout {
	case "zip":
		err = u.zip(in)
	default:
		err = u.stream(in, f, file)
	}
	if err == nil {
		err = u.makeLinks()
	}
	if in.err != nil {
		err = in.err
	}
	return u.stats, err
}

func permanentf(reason, text string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(text, args...))
}

// damagedError is an archive that cannot be read.
func damagedError(err error) error {
	if reconcile.IsTerminal(err) {
		return err
	}
	return permanentf(ReasonInvalidArchive, "the archive cannot be read: %w", err)
}

// source reads the archive. It remembers a fault of the disk or the end of the
// context, which a decoder would call a damaged archive.
type source struct {
	ctx    context.Context
	src    io.ReaderAt
	size   int64
	at     int64
	budget int64 // of ReadAt, if limited
	bound  bool
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	if s.at >= s.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.size-s.at)]
	n, err := s.ReadAt(p, s.at)
	s.at += int64(n)
	return n, err
}

var errBefore = errors.New("a part of it is said to stand before its beginning")

// ReadAt reads anywhere, within the budget if there is one.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	if off < 0 {
		return 0, errBefore // the archive says so, and not the disk
	}
	if s.bound {
		if s.budget -= int64(len(p)); s.budget < 0 {
			return 0, permanentf(ReasonTooLarge, "the archive's list of files is larger than %d MiB", maxDirectory>>20)
		}
	}
	n, err := s.src.ReadAt(p, off)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = err
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}
