package git

import (
	"bytes"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// A refFilterReader passes on the lines of a list of references that match. The format is that of
// git's pack protocol, "Reference Discovery": lines with their length in front, "<hash>
// <name>", the first with the capabilities after a NUL; a peeled tag is named
// "<name>^{}".
type refFilterReader struct {
	lines *pktline.Scanner
	keep  func(name []byte) bool
	out   bytes.Buffer
}

// filterRefs returns r without the references that keep rejects; keep nil: r itself.
func filterRefs(r io.Reader, keep func(name []byte) bool) io.Reader {
	if keep == nil {
		return r
	}
	return &refFilterReader{lines: pktline.NewScanner(r), keep: keep}
}

// Read implements io.Reader.
func (r *refFilterReader) Read(p []byte) (int, error) {
	for r.out.Len() == 0 {
		if !r.lines.Scan() {
			if err := r.lines.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		line := r.lines.Bytes()
		to := pktline.NewEncoder(&r.out)
		var err error
		switch {
		case len(line) == 0:
			err = to.Flush()
		case r.isNeeded(line):
			err = to.Encode(line)
		}
		if err != nil {
			return 0, err
		}
	}
	return r.out.Read(p)
}

// isNeeded reports whether a line is needed: a line that is no plain reference always is.
func (r *refFilterReader) isNeeded(line []byte) bool {
	if bytes.IndexByte(line, 0) >= 0 || bytes.HasPrefix(line, []byte("#")) || bytes.HasPrefix(line, []byte("ERR ")) {
		return true
	}
	hash, name, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if !ok || !isHash(hash) {
		return true
	}
	return r.keep(bytes.TrimSuffix(name, []byte("^{}")))
}
