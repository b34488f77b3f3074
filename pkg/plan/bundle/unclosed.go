package bundle

import (
	"regexp"
	"slices"
	"strings"
)

// An openAction is an action of a template that an end has to close.
type openAction struct {
	word   string
	line   int // from 1
	indent int // of the line where the action begins it; -1 otherwise
}

var (
	templateComment = regexp.MustCompile(`^\{\{-?\s*/\*(?s:.*?)\*/\s*-?\}\}`)
	templateAction  = regexp.MustCompile(`^\{\{(?:-\s)?\s*(?:([a-z]+)\b)?(?:"(?:[^"\\\n]|\\.)*"|` + "`[^`]*`" + `|[^"` + "`" + `}]|\}[^}])*\}\}`)
)

// openers are the words of actions that an end closes.
var openers = []string{"if", "range", "with", "define", "block"}

// unclosed returns the action of a template that no end closes, where the template ends
// before an end that is missing. Of several candidates it is the one inside the outer
// action whose indentation the end has. ok is false where all are closed.
func unclosed(text string) (which openAction, ok bool) {
	var open, left []openAction
	line := 1
	for at := 0; at < len(text); {
		next := strings.Index(text[at:], "{{")
		if next < 0 {
			break
		}
		line += strings.Count(text[at:at+next], "\n")
		at += next
		m := templateComment.FindStringSubmatch(text[at:])
		if m == nil {
			m = templateAction.FindStringSubmatch(text[at:])
		}
		if m == nil {
			return which, false // it is no template at all
		}
		if len(m) > 1 {
			a := openAction{word: m[1], line: line, indent: indentAt(text, at)}
			switch {
			case slices.Contains(openers, a.word):
				open = append(open, a)
			case a.word == "end":
				open, left = closeActions(open, left, a)
			}
		}
		line += strings.Count(m[0], "\n")
		at += len(m[0])
	}
	switch {
	case len(open) == 0:
		return which, false
	case len(left) > 0:
		return left[0], true
	}
	return open[len(open)-1], true
}

// closeActions returns the actions that are open after an end. left are the actions
// that the end passed over, since it is indented as one around them.
func closeActions(open, left []openAction, end openAction) ([]openAction, []openAction) {
	if len(open) == 0 {
		return open, left
	}
	top := len(open) - 1
	for i := top; i >= 0 && end.indent >= 0 && open[top].indent > end.indent; i-- {
		if open[i].indent == end.indent && len(left) == 0 {
			left = append(left, open[i+1])
			break
		}
	}
	return open[:top], left
}

// indentAt is the indentation of the action at a place of a text, if it begins its
// line; -1 otherwise.
func indentAt(text string, at int) int {
	start := strings.LastIndexByte(text[:at], '\n') + 1
	if strings.Trim(text[start:at], " \t") != "" {
		return -1
	}
	return at - start
}
