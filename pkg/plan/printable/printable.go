// Package printable makes text that others have written safe for a terminal.
//
// Names, messages and states of objects come from repositories, clusters and
// servers. Control characters among them would move the cursor, change colors
// or write the clipboard of the person who looks; format characters such as
// U+202E show a text in another order than it is. Both are written as escapes:
// \u001b as in JSON, so that they mean the same within a JSON string, and \x9b
// for a byte that is no UTF-8.
package printable

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes all control and format characters but line feeds and tabs, line
// and paragraph separators, and bytes that are no UTF-8.
func Text(s string) string { return escape(s, false) }

// Line is Text for what must stay in one line: it escapes line feeds and tabs,
// too.
func Line(s string) string { return escape(s, true) }

func escape(s string, line bool) string {
	first := strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || unprintable(r, line) })
	if first < 0 {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 16)
	out.WriteString(s[:first])
	for i := first; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case unprintable(r, line):
			writeEscape(&out, r)
		default:
			out.WriteString(s[i : i+size])
		}
		i += size
	}
	return out.String()
}

// unprintable reports whether a terminal does something else with a character than
// to show it.
func unprintable(r rune, line bool) bool {
	switch {
	case r == '\n' || r == '\t':
		return line
	case r >= ' ' && r < 0x7f:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func writeEscape(out *strings.Builder, r rune) {
	switch r {
	case '\n':
		out.WriteString(`\n`)
	case '\r':
		out.WriteString(`\r`)
	case '\t':
		out.WriteString(`\t`)
	default:
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(out, `\u%04x`, unit)
		}
	}
}

// Fprintf is fmt.Fprintf for users: texts, errors and Stringers among the values stay
// in their line.
func Fprintf(w io.Writer, format string, args ...any) {
	args = slices.Clone(args)
	for i, a := range args {
		switch t := a.(type) {
		case error:
			args[i] = Line(t.Error())
		case fmt.Stringer:
			args[i] = Line(t.String())
		default:
			if v := reflect.ValueOf(a); v.Kind() == reflect.String {
				args[i] = Line(v.String())
			}
		}
	}
	fmt.Fprintf(w, format, args...)
}

// A Writer writes Text of what it is given. It keeps the bytes of a character
// that is not complete yet for the next call. It is safe for concurrent use.
type Writer struct {
	mu         sync.Mutex
	to         io.Writer
	incomplete []byte
}

// NewWriter returns a Writer that writes to another one.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write writes p, and returns len(p) unless the writer below fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data := append(w.incomplete, p...)
	end := completeLength(data)
	text := Text(string(data[:end]))
	w.incomplete = append([]byte(nil), data[end:]...)
	if text == "" {
		return len(p), nil
	}
	if _, err := io.WriteString(w.to, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// completeLength returns where the last character begins if more bytes may complete
// it, and the length otherwise.
func completeLength(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if at := len(data) - back; utf8.RuneStart(data[at]) {
			if utf8.FullRune(data[at:]) {
				return len(data)
			}
			return at
		}
	}
	return len(data)
}
