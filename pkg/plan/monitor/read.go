package monitor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits of the lines of a Reader.
const (
	// MaxLineBytes is the length of a line.
	MaxLineBytes = 10 << 20
	// maxValues bounds the memory that a line takes: an empty object takes two bytes in JSON.
	maxValues = 500_000
)

// A Line is a snapshot as it was read.
type Line struct {
	Snapshot
	// Raw is the line itself, with keys that a Snapshot does not have.
	Raw json.RawMessage
}

// A Reader reads snapshots, one on each line.
type Reader struct {
	in   *bufio.Reader
	line int
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(in, 64<<10)} }

// Next returns the next snapshot, io.EOF after the last one, and an error that names the line if it is
// not a snapshot or is too large. Empty lines are left out.
func (r *Reader) Next() (*Line, error) {
	for {
		text, err := r.readLine()
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			continue
		}
		line, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
		return line, nil
	}
}

// readLine returns the next line without blanks around it.
func (r *Reader) readLine() ([]byte, error) {
	var text []byte
	r.line++
	for {
		part, err := r.in.ReadSlice('\n')
		if len(text)+len(part) > MaxLineBytes {
			return nil, fmt.Errorf("line %d is longer than %d MiB", r.line, MaxLineBytes>>20)
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF), err != nil && len(text) == 0:
			return nil, err
		}
		return bytes.TrimSpace(text), nil
	}
}

func parse(text []byte) (*Line, error) {
	if n := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte(",")); n > maxValues {
		return nil, fmt.Errorf("%d values, at most %d are read", n, maxValues)
	}
	line := &Line{Raw: text}
	if err := json.Unmarshal(text, &line.Snapshot); err != nil {
		return nil, fmt.Errorf("not a snapshot of fleet monitor: %w", err)
	}
	if line.Timestamp == "" {
		return nil, errors.New("not a snapshot of fleet monitor: it has no timestamp")
	}
	return line, nil
}
