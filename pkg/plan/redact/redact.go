// Package redact keeps Helm values out of texts. Errors of an API server and
// differences of objects repeat what a chart rendered, and that may come from a
// Secret; statuses and logs must not show it.
package redact

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Hidden stands where a value was.
const Hidden = "***"

// Limits of the values that are hidden. Shorter ones are names and switches; hiding them
// would make every text unreadable.
const (
	shortest       = 4  // characters of a text
	shortestNumber = 6  // digits of a number
	shortestLine   = 12 // characters of one line of a longer text
	shortestPart   = 10 // characters of a text that is hidden also as a part of a word
)

// A Redactor hides values in texts. The zero Redactor hides nothing.
type Redactor struct {
	secrets []string // longest first
}

// New hides the leaves of all values, in the forms in which they appear: plain, quoted,
// with blanks collapsed, and in base64. Words in keep stay readable: names that every user
// may see.
func New(keep []string, values ...map[string]any) Redactor {
	set := map[string]bool{}
	for _, v := range values {
		collectTexts(set, v)
	}
	for _, k := range append(keep, "true", "false", "null") {
		delete(set, k)
	}
	var out Redactor
	for s := range set {
		out.secrets = append(out.secrets, s)
	}
	slices.SortFunc(out.secrets, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return out
}

func collectTexts(set map[string]bool, v any) {
	switch t := v.(type) {
	case map[string]any:
		for _, e := range t {
			collectTexts(set, e)
		}
	case []any:
		for _, e := range t {
			collectTexts(set, e)
		}
	case string:
		addForms(set, t)
	case float64:
		addNumber(set, strconv.FormatFloat(t, 'f', -1, 64))
	case int64:
		addNumber(set, strconv.FormatInt(t, 10))
	case int:
		addNumber(set, strconv.Itoa(t))
	}
}

func addNumber(set map[string]bool, s string) {
	if len(s) >= shortestNumber {
		set[s] = true
	}
}

// addForms collects the forms of one text.
func addForms(set map[string]bool, s string) {
	trimmed := strings.TrimSpace(s)
	if len(trimmed) < shortest {
		return
	}
	quoted := strconv.Quote(s)
	for _, form := range []string{
		s, trimmed, quoted[1 : len(quoted)-1], strings.Join(strings.Fields(s), " "),
		base64.StdEncoding.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(trimmed)),
	} {
		set[form] = true
	}
	if !strings.Contains(trimmed, "\n") {
		return
	}
	for line := range strings.Lines(trimmed) {
		if line = strings.TrimSpace(line); len(line) >= shortestLine {
			set[line] = true
		}
	}
}

// Text returns a text without the values. A value of less than ten characters is hidden
// where it stands by itself, not as a part of another word.
func (r Redactor) Text(text string) string {
	for _, s := range r.secrets {
		text = replaceSecret(text, s)
	}
	return text
}

func replaceSecret(text, secret string) string {
	if !strings.Contains(text, secret) {
		return text
	}
	var out strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			out.WriteString(text[from:])
			return out.String()
		}
		begin, end := from+i, from+i+len(secret)
		if len(secret) < shortestPart && (isOneWord(text, begin-1, begin) || isOneWord(text, end-1, end)) {
			out.WriteString(text[from : begin+1])
			from = begin + 1
			continue
		}
		out.WriteString(text[from:begin])
		out.WriteString(Hidden)
		from = end
	}
}

// isOneWord reports whether two neighboring bytes belong to one word.
func isOneWord(text string, a, b int) bool {
	return a >= 0 && b < len(text) && alphanumeric(text[a]) && alphanumeric(text[b])
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
