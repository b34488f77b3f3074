package printer

import (
	"fmt"
	"io"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// A ColoredText is a piece of a line, in the colour of a state; without one where that is
// empty.
type ColoredText struct {
	Text  string
	State string
}

// Escape sequences of terminals.
const (
	Red     = "\x1b[31m"
	Green   = "\x1b[32m"
	Yellow  = "\x1b[33m"
	Plainly = "\x1b[0m"
)

// colorOf is the colour of a word that says how something is: green for well, red
// for what does not become well without a change, yellow for all else.
func colorOf(state string) string {
	switch state {
	case "", "-", "?", "now":
		return ""
	case string(fleet.Ready), "ok":
		return Green
	case string(fleet.ErrApplied), "Unreadable", "Orphaned", "STOP", "FAIL":
		return Red
	}
	return Yellow
}

// ColorMode is the value of --color.
type ColorMode string

// Values of --color; empty is auto.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// String returns the value as it is given.
func (m *ColorMode) String() string { return string(*m) }

// Type returns what help calls the value.
func (m *ColorMode) Type() string { return "when" }

// Set reads the value.
func (m *ColorMode) Set(text string) error {
	switch v := ColorMode(text); v {
	case ColorAuto, ColorAlways, ColorNever:
		*m = v
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", ColorAuto, ColorAlways, ColorNever)
}

// PlainTerminal reports whether a terminal shows no colours, or the user wants none.
func PlainTerminal(env func(string) string) bool {
	return env("NO_COLOR") != "" || env("TERM") == "dumb"
}

// WriteLine writes spans as one line, in colours where the answer has them. Their
// texts stay in the line, as printable.Line makes them.
func WriteLine(out io.Writer, spans ...ColoredText) {
	to, colored := colorWriter(out)
	var line strings.Builder
	blanks := ""
	for _, s := range spans {
		text := printable.Line(s.Text)
		body := strings.TrimRight(text, " ")
		if body == "" {
			blanks += text
			continue
		}
		line.WriteString(blanks)
		blanks = text[len(body):]
		if code := colorOf(s.State); colored && code != "" {
			body = code + body + Plainly
		}
		line.WriteString(body)
	}
	fmt.Fprintln(to, line.String())
}
