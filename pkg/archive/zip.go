package archive

import (
	"archive/zip"
	"io"
	"io/fs"
)

// maxDirectory bounds the list of files at the end of a zip, which is read into
// memory. 100,000 names of 100 bytes need 14 MiB.
const maxDirectory = 24 << 20

// encrypted is the bit of a zip entry's flags that says so (APPNOTE 4.4.4).
const encrypted = 0x1

func (u *unpacking) zip(in *source) error {
	in.bound, in.budget = true, maxDirectory
	z, err := zip.NewReader(in, in.size)
	in.bound = false
	if err != nil {
		return damagedError(err)
	}
	if len(z.File) > u.limits.Files {
		return permanentf(ReasonTooLarge, "the archive holds more than %d files and directories", u.limits.Files)
	}
	for _, f := range z.File {
		if err := u.zipped(f); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) zipped(f *zip.File) error {
	e := archiveEntry{name: f.Name, mode: f.Mode(), size: int64(min(f.UncompressedSize64, 1<<62))}
	switch {
	case f.Flags&encrypted != 0:
		return permanentf(ReasonInvalidArchive, "the archive holds an encrypted file: %s", quote(f.Name))
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return permanentf(ReasonInvalidArchive, "the archive holds a file that is neither stored nor deflated (method %d): %s", f.Method, quote(f.Name))
	case e.mode.IsDir():
		return u.directory(e)
	case e.mode.Type() != 0 && e.mode.Type() != fs.ModeSymlink:
		return permanentf(ReasonUnsafeArchive, "the archive holds a device or named pipe: %s", quote(f.Name))
	}
	body, err := f.Open()
	if err != nil {
		return damagedError(err)
	}
	defer func() { _ = body.Close() }()
	if e.mode.Type() == 0 {
		return u.file(e, body)
	}
	target, err := io.ReadAll(io.LimitReader(body, int64(u.limits.PathBytes)+1))
	if err != nil {
		return damagedError(err)
	}
	e.target = string(target)
	return u.noteLink(e)
}
