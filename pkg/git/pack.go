package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// receivePack copies a pack from a remote to w and reads it on the way, so that it ends
// as soon as a limit is reached. The library that indexes the pack afterwards holds
// whole objects in memory, and a small pack can unfold to objects of any size.
//
// full is the error for a pack that is larger than l.PackBytes.
func receivePack(r io.Reader, w io.Writer, l Limits, full error) (int64, error) {
	counted := &countingReader{r: io.TeeReader(r, w), left: l.PackBytes, full: full}
	scanner := packfile.NewScanner(bufio.NewReader(counted))
	_, objects, err := scanner.Header()
	if err != nil {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	var inflated int64
	for range objects {
		head, err := scanner.NextObjectHeader()
		if err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		prefix := &prefix{}
		if head.Length > l.FileBytes {
			return 0, tooLarge("a file", l.FileBytes)
		}
		if _, _, err := scanner.NextObject(prefix); err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		size := head.Length
		if head.Type.IsDelta() {
			size = prefix.deltaTarget()
		}
		inflated += size
		switch {
		case size < 0:
			return 0, errors.New("read pack: malformed delta")
		case size > l.FileBytes:
			return 0, tooLarge("a file", l.FileBytes)
		case inflated > l.InflatedBytes:
			return 0, tooLarge("the commit, unpacked,", l.InflatedBytes)
		}
	}
	if _, err := scanner.Checksum(); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	if _, err := io.Copy(io.Discard, counted); err != nil { // nothing follows a pack
		return 0, fmt.Errorf("read pack: %w", err)
	}
	return counted.n, nil
}

func tooLarge(what string, limit int64) error {
	return permanentf(ReasonTooLarge, "%s is larger than %s", what, formatSize(limit))
}

func formatSize(bytes int64) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// countingReader counts the bytes that it reads, and fails beyond a limit.
type countingReader struct {
	r       io.Reader
	n, left int64
	full    error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.left {
		return n, c.full
	}
	return n, err
}

// prefix keeps the first bytes of an object: those of a delta contain the size of its
// result.
type prefix struct {
	buf [20]byte
	n   int
}

func (p *prefix) Write(b []byte) (int, error) {
	p.n += copy(p.buf[p.n:], b)
	return len(b), nil
}

// deltaTarget is the size of the object that a delta makes, or -1.
func (p *prefix) deltaTarget() int64 {
	rest := p.buf[:p.n]
	var sizes [2]int64
	for i := range sizes {
		shift := 0
		for {
			if len(rest) == 0 || shift > 56 {
				return -1
			}
			b := rest[0]
			rest = rest[1:]
			sizes[i] |= int64(b&0x7f) << shift
			shift += 7
			if b&0x80 == 0 {
				break
			}
		}
	}
	return sizes[1]
}
