package values

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

const (
	// maxPatternBytes is how long a regular expression may be.
	maxPatternBytes = 4 << 10
	// maxPatternSize is how many states it may have.
	maxPatternSize = 5000
)

// matchOnceCost returns the cost of a regular expression that is looked for until it is found.
func matchOnceCost(c *call) (bytes, steps int, err error) {
	states, _, err := pattern(c.text(0))
	if err != nil {
		return 0, 0, err
	}
	return c.size, states + states*len(c.text(1))/50, nil
}

// matchAllCost returns the cost of a regular expression that is looked for behind each
// place where it is found. If it may match a text of any length, each of these searches may read
// all that is left.
func matchAllCost(c *call) (bytes, steps int, err error) {
	states, endless, err := pattern(c.text(0))
	if err != nil {
		return 0, 0, err
	}
	text := len(c.text(1))
	steps = states * text / 50
	if endless {
		steps *= max(1, text/32)
	}
	replacement := c.text(2)
	bytes = times(text+1, 3*valueBytes)
	if replacement != "" {
		bytes = times(text+1, len(replacement)+1) + times(strings.Count(replacement, "$"), text)
	}
	return bytes, states + steps, nil
}

// pattern is how many states a regular expression has, and whether it may match
// a text of any length. One that cannot be read has none: its function says why.
func pattern(text string) (states int, endless bool, err error) {
	if len(text) > maxPatternBytes {
		return 0, false, fmt.Errorf("a regular expression of more than %d bytes: %w", maxPatternBytes, ErrLimit)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, false, nil
	}
	states, endless = statesOf(re)
	if states > maxPatternSize {
		return 0, false, fmt.Errorf("a regular expression of more than %d states: %w", maxPatternSize, ErrLimit)
	}
	return states, endless, nil
}

func statesOf(re *syntax.Regexp) (states int, endless bool) {
	states = 1
	if re.Op == syntax.OpLiteral {
		states = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n, e := statesOf(sub)
		states, endless = states+n, endless || e
	}
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		endless = true
	case syntax.OpRepeat:
		endless = endless || re.Max < 0
		states = times(states, max(re.Min+1, re.Max))
	}
	return states, endless
}
