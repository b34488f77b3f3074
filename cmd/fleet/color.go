package main

import (
	"fmt"
	"io"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// A span is a piece of a line, in the colour of a state; without one where that is
// empty.
type span struct {
	text  string
	state string
}

// Escape sequences of terminals.
const (
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	plainly = "\x1b[0m"
)

// colorOf is the colour of a word that says how something is: green for well, red
// for what does not become well without a change, yellow for all else.
func colorOf(state string) string {
	switch state {
	case "", "-", "?", "now":
		return ""
	case string(fleet.Ready), "ok":
		return green
	case string(fleet.ErrApplied), "Unreadable", "Orphaned", "STOP", "FAIL":
		return red
	}
	return yellow
}

// colorMode is the value of --color.
type colorMode string

// Values of --color; empty is auto.
const (
	colorAuto   colorMode = "auto"
	colorAlways colorMode = "always"
	colorNever  colorMode = "never"
)

// String returns the value as it is given.
func (m *colorMode) String() string { return string(*m) }

// Type returns what help calls the value.
func (m *colorMode) Type() string { return "when" }

// Set reads the value.
func (m *colorMode) Set(text string) error {
	switch v := colorMode(text); v {
	case colorAuto, colorAlways, colorNever:
		*m = v
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", colorAuto, colorAlways, colorNever)
}

// colored reports whether an answer has colours.
func (g *globals) colored(terminal bool) bool {
	switch g.color {
	case colorAlways:
		return true
	case colorNever:
		return false
	}
	return terminal && !g.plain
}

// plainTerminal reports whether a terminal shows no colours, or the user wants none.
func plainTerminal(env func(string) string) bool {
	return env("NO_COLOR") != "" || env("TERM") == "dumb"
}

// writeLine writes spans as one line, in colours where the answer has them. Their
// texts stay in the line, as printable.Line makes them.
func writeLine(out io.Writer, spans ...span) {
	to, colored := paintable(out)
	var line strings.Builder
	blanks := ""
	for _, s := range spans {
		text := printable.Line(s.text)
		body := strings.TrimRight(text, " ")
		if body == "" {
			blanks += text
			continue
		}
		line.WriteString(blanks)
		blanks = text[len(body):]
		if code := colorOf(s.state); colored && code != "" {
			body = code + body + plainly
		}
		line.WriteString(body)
	}
	fmt.Fprintln(to, line.String())
}
