package journal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// PackedLimit is the most bytes that Pack returns by default: with base64 less
// than 3 KiB of a Cluster.
const PackedLimit = 2 << 10

// unpackedLimit is how much Unpack reads: more than any journal has.
const unpackedLimit = 64 << 10

// none stands for a field of a line that is empty.
const none = "-"

// Text returns one line for each entry, the oldest first:
//
//	2026-08-24T14:03:02Z shop-web correct Modified 3@2026-08-24T14:01:10Z Deployment web/web: spec.replicas
//
// that is when, which deployment, what, why, how often since when, and in words.
// Parse reads it.
func Text(entries []Entry) string {
	var out strings.Builder
	for _, e := range entries {
		e = e.sanitized()
		times := strconv.Itoa(e.Times)
		if e.Times > 1 {
			times += "@" + e.First.Format(time.RFC3339)
		}
		fields := []string{e.At.Format(time.RFC3339), e.Deployment, e.Verb, e.Reason, times, e.Message}
		for i, f := range fields[:len(fields)-1] {
			if f == "" {
				fields[i] = none
			}
		}
		out.WriteString(strings.TrimRight(strings.Join(fields, " "), " ") + "\n")
	}
	return out.String()
}

// Parse reads what Text wrote. Lines of another form are left out: a newer agent
// may have written them.
func Parse(text string) []Entry {
	var out []Entry
	for l := range strings.Lines(text) {
		if e, ok := parseLine(strings.TrimSpace(l)); ok {
			out = append(out, e)
		}
	}
	return out
}

func parseLine(text string) (Entry, bool) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) < 5 {
		return Entry{}, false
	}
	for i, f := range fields[:5] {
		if f == none {
			fields[i] = ""
		}
	}
	e := Entry{Deployment: fields[1], Verb: fields[2], Reason: fields[3]}
	times, first, repeated := strings.Cut(fields[4], "@")
	var err error
	if e.Times, err = strconv.Atoi(times); err != nil {
		return Entry{}, false
	}
	var ok bool
	if e.At, ok = parseTime(fields[0]); !ok {
		return Entry{}, false
	}
	if repeated {
		if e.First, ok = parseTime(first); !ok {
			return Entry{}, false
		}
	}
	if len(fields) == 6 {
		e.Message = fields[5]
	}
	return e.sanitized(), true
}

// parseTime reads a time in a year that can be written again.
func parseTime(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC()
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999
}

// Pack returns the newest entries as gzip of their Text, as many as fit into limit bytes.
// It is nil if there are none. The same entries give the same bytes.
func Pack(entries []Entry, limit int) ([]byte, error) {
	for len(entries) > 0 {
		packed, err := compress(Text(entries))
		if err != nil || len(packed) <= limit {
			return packed, err
		}
		// Lines compress about alike: leave out as much as there is too much.
		entries = entries[max(1, len(entries)*(len(packed)-limit)/len(packed)):]
	}
	return nil, nil
}

func compress(text string) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		if _, err = io.WriteString(w, text); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pack the journal: %w", err)
	}
	return out.Bytes(), nil
}

// ErrTooLong is a journal that is longer than any agent writes.
var ErrTooLong = errors.New("the journal is longer than 64 KiB")

// Unpack reads what Pack wrote. The bytes are not trusted: Unpack refuses more than 64 KiB,
// and leaves out what a terminal would act on.
func Unpack(packed []byte) ([]Entry, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the journal: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, unpackedLimit+1))
	if err != nil {
		return nil, fmt.Errorf("unpack the journal: %w", err)
	}
	if len(text) > unpackedLimit {
		return nil, ErrTooLong
	}
	return Parse(string(text)), nil
}
