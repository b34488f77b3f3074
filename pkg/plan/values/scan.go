package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	leftDelim, rightDelim = "${", "}"
	// maxActions is how often ${ may stand in one text.
	maxActions = 5000
	// maxCodeBytes is how much of one text may stand between ${ and }.
	maxCodeBytes = 64 << 10
	// maxVariables is how many variables one text may declare or assign.
	maxVariables = 1000
	// maxParens is how deep parentheses may be nested.
	maxParens = 100
)

// A templateText is what a text holds between ${ and }.
type templateText struct {
	actions, bytes, variables, parens int
	entries                           int // that the text has beside, see entriesIn
	unclosed                          int // line of the action that has no end, from 1; 0: none
}

// scanTemplates finds the templates in a text as text/template does, before anything
// is made of them: reading them takes much more memory than they do.
func scanTemplates(text string) templateText {
	var c templateText
	for whole := text; ; {
		at := strings.Index(text, leftDelim)
		if at < 0 {
			c.entries += entriesIn(text)
			return c
		}
		c.entries += entriesIn(text[:at])
		c.actions++
		text = text[at+len(leftDelim):]
		if body := strings.TrimLeft(strings.TrimPrefix(text, "-"), " \t\r\n"); strings.HasPrefix(body, "/*") {
			_, text, _ = strings.Cut(body, "*/")
			continue
		}
		length, closed := c.readAction(text)
		if !closed {
			c.unclosed = 1 + strings.Count(whole[:len(whole)-len(text)], "\n")
		}
		text = text[length:]
	}
}

// readAction reads one action, up to its end, and returns how long it is, and whether it
// has an end.
func (t *templateText) readAction(text string) (length int, closed bool) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'', '`':
			end := quoted(text[i:])
			t.bytes += end
			i += end - 1
			continue
		case '}':
			return i + 1, true
		case '(':
			depth++
			t.parens = max(t.parens, depth)
		case ')':
			depth--
		case '=':
			t.variables++
		}
		t.bytes++
	}
	return len(text), false
}

// quoted is how long the string is that text begins with.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] != '`':
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return len(text)
}

// checkLimits fails if a text holds more than templates may.
func (t templateText) checkLimits() error {
	for _, one := range []struct {
		n, limit int
		what     string
	}{
		{t.actions, maxActions, "${ }"}, {t.bytes, maxCodeBytes, "bytes between ${ and }"},
		{t.variables, maxVariables, "assignments"}, {t.parens, maxParens, "parentheses in each other"},
	} {
		if one.n > one.limit {
			return fmt.Errorf("the text has more than %d %s: %w", one.limit, one.what, ErrLimit)
		}
	}
	return nil
}

// entriesIn is how many values a YAML document has, or more: nearly each of
// them begins with one of these.
func entriesIn(text string) (n int) {
	for _, between := range []string{"\n", ",", "[", "{", "- -", "? ?"} {
		n += strings.Count(text, between)
	}
	return n
}

var refusedCall = regexp.MustCompile(`\$\{[^}]*\b(` + strings.Join(Refused, "|") + `)\b`)

// RefusedIn returns the refused functions that templates of Helm options call, sorted. It
// regards a name in a text between ${ and } as a call.
func RefusedIn(h *fleet.HelmOptions) []string {
	if h == nil || h.DisablePreProcess {
		return nil
	}
	texts := slices.Collect(maps.Values(h.TemplateValues))
	if h.Values != nil {
		raw, err := json.Marshal(h.Values.Data)
		if err != nil {
			return nil // it is not rendered either
		}
		texts = append(texts, string(raw))
	}
	var names []string
	for _, text := range texts {
		for _, found := range refusedCall.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
