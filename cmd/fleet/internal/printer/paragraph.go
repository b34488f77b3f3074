package printer

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Paragraph prints texts that are broken at a width.
type Paragraph struct {
	Out   io.Writer
	Width int    // 0: no limit
	State string // a word in the prefix that has its colour
}

// Lines prints a text behind a prefix; further lines stand below the text.
func (p Paragraph) Lines(prefix, text string) {
	indent := utf8.RuneCountInString(prefix)
	line := prefix
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && p.Width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.Width {
			p.line(line)
			p.State = ""
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	p.line(line)
}

// line prints one line, with its state in colour.
func (p Paragraph) line(text string) {
	before, after, _ := strings.Cut(text, p.State)
	WriteLine(p.Out, ColoredText{Text: before}, ColoredText{p.State, p.State}, ColoredText{Text: after})
}

// PrintLines prints what happened, with the time since the command began.
func PrintLines(out interface{ Write([]byte) (int, error) }, prefix string, lines []view.EventLine, elapsed time.Duration) {
	for _, l := range lines {
		Fprintf(out, "%s  %-6s  %s%s\n", view.Elapsed(elapsed), l.Word, prefix, l.Text)
	}
}
