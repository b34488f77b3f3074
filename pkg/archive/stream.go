package archive

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
)

// maxWindow is the memory that a compressed file may ask for: 64 MiB is what
// xz -9 needs, and more than zstd -19 does.
const maxWindow = 64 << 20

// decompress is the reader for a compression, and how to end it.
func decompress(in io.Reader, compression string) (io.Reader, func(), error) {
	nothing := func() {}
	switch compression {
	case "gz":
		z, err := gzip.NewReader(in)
		return z, nothing, err
	case "bz2":
		return bzip2.NewReader(in), nothing, nil
	case "zst":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow/2), zstd.WithDecoderMaxMemory(maxWindow/2))
		if err != nil {
			return nil, nothing, err
		}
		return z, z.Close, nil
	case "xz":
		z, err := xz.NewReader(in, maxWindow)
		return xzReader{z}, nothing, xzError(err)
	}
	return in, nothing, nil
}

// An xzReader names the limit that a .xz file exceeds.
type xzReader struct{ in *xz.Reader }

func (x xzReader) Read(p []byte) (int, error) {
	n, err := x.in.Read(p)
	return n, xzError(err)
}

func xzError(err error) error {
	if errors.Is(err, xz.ErrMemlimit) {
		return permanentf(ReasonTooLarge, "the archive needs more than %d MiB of memory to unpack (xz -9 needs 64)", maxWindow>>20)
	}
	return err
}

// A gauge ends a stream that becomes larger than what it was made of allows.
// Headers and padding of a tar count too: they can be a bomb of their own.
type gauge struct {
	in   io.Reader
	left int64
}

func (g *gauge) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, permanentf(ReasonTooLarge, "the archive is a bomb: it unpacks to far more than the files that it names")
	}
	n, err := g.in.Read(p[:min(int64(len(p)), g.left)])
	g.left -= int64(n)
	return n, err
}

// perName is the most that a tar needs for a name: headers and padding.
const perName = 4 << 10

// stream unpacks a tar or a single file.
func (u *unpacking) stream(in *source, f format, file string) error {
	r, end, err := decompress(bufio.NewReaderSize(in, 64<<10), f.compression)
	if err != nil {
		return damagedError(err)
	}
	defer end()
	if f.layout == "file" {
		if err := u.file(archiveEntry{name: file, size: -1}, r); err != nil {
			return err
		}
		return nil
	}
	g := &gauge{in: r, left: u.left + int64(u.limits.Files)*perName + 1<<20}
	if err := u.tar(tar.NewReader(g)); err != nil {
		return err
	}
	// The checksum of the compression stands behind the last file.
	if _, err := io.Copy(io.Discard, g); err != nil && !errors.Is(err, gzip.ErrHeader) {
		return damagedError(err)
	}
	return nil
}

func (u *unpacking) tar(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damagedError(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // what git archive says of itself
		}
		e := archiveEntry{name: h.Name, size: h.Size, mode: h.FileInfo().Mode(), target: h.Linkname}
		if why := unsupported(h); why != "" {
			return permanentf(ReasonUnsafeArchive, "the archive holds %s: %s", why, quote(h.Name))
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = u.directory(e)
		case tar.TypeSymlink:
			err = u.noteLink(e)
		default:
			err = u.file(e, t)
		}
		if err != nil {
			return err
		}
	}
}

// unsupported says what an entry is that is not unpacked.
func unsupported(h *tar.Header) string {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "a sparse file"
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		return ""
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a named pipe"
	case tar.TypeGNUSparse:
		return "a sparse file"
	}
	return "something that is neither file nor directory nor link"
}
