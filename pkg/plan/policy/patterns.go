package policy

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Bounds of patterns. A match takes time in proportion to the instructions of the pattern
// and to the length of the text.
const (
	maxPatternBytes = 1024
	maxInstructions = 4096
	maxTextBytes    = 4096
)

// patterns are regular expressions, of which one must match, or be the text itself. They
// allow everything if no object sets them.
type patterns struct {
	list
	compiled []*regexp.Regexp
	fault    *Violation // of the first that does not compile
}

// join adds the patterns of an object. anchored patterns must match the whole text.
func (p *patterns) join(o Object, texts []string, anchored bool) {
	p.list.join(o, texts)
	for _, text := range texts {
		re, err := compile(text, anchored)
		if err == nil {
			p.compiled = append(p.compiled, re)
			continue
		}
		if p.fault == nil {
			p.fault = newViolation(rule{p.name, []Object{o}}, "%s of %s: pattern %.100q: %s", p.name, o, text, err)
		}
	}
}

// compile compiles a pattern within the bounds.
func compile(text string, anchored bool) (*regexp.Regexp, error) {
	if len(text) > maxPatternBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxPatternBytes)
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil { // by itself: a parenthesis must not end the group below
		return nil, err
	}
	if anchored {
		text = "^(?:" + text + ")$"
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxInstructions {
		return nil, fmt.Errorf("it is too complex: it has %d instructions, at most %d are possible", len(prog.Inst), maxInstructions)
	}
	return regexp.Compile(text)
}

// check returns why a text is not allowed; what is the word for it. An empty text is
// allowed. While a pattern does not compile, only texts are allowed that are listed
// verbatim.
func (p *patterns) check(what, text string) error {
	if text == "" || !p.isSet() || slices.Contains(p.values, text) {
		return nil
	}
	if p.fault != nil {
		return reconcile.TerminalError(ReasonInvalid, p.fault)
	}
	fits := func(re *regexp.Regexp) bool { return re.MatchString(text) }
	if len(text) <= maxTextBytes && slices.ContainsFunc(p.compiled, fits) {
		return nil
	}
	return violation(p.rule, "disallowed %s %s: %s not in allowed set %v", what, shown(text), shown(text), p.values)
}
