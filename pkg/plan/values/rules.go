package values

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxItems is how long a list, or a text, may be that a template asks for by
	// number.
	maxItems = 100_000
	// maxNumber is how far from 0 such a list may reach.
	maxNumber = 1_000_000_000
	// maxVersionBytes is how long a version may be, or what it is compared with.
	maxVersionBytes = 4 << 10
	// maxDecimals is how many numbers one call may calculate with exactly.
	maxDecimals = 100
)

// parts are functions that return one of their arguments, a part of one, or
// next to nothing. They take the same time however large those are.
var parts = strings.Fields(`all any coalesce default dig empty fail first get hasKey hello kindIs kindOf last mustFirst mustLast
	now plural ternary typeIs typeIsLike typeOf unset`)

// holders are functions that return a new list or map of values that exist:
// they make what holds these, and not the values.
var holders = strings.Fields(`append chunk compact concat dict initial keys list mustAppend mustChunk mustCompact mustInitial
	mustPrepend mustPush mustRest mustReverse mustSlice omit pick pluck prepend push rest reverse set slice tuple values`)

func isShallow(name string) bool { return slices.Contains(holders, name) }

// holderBytes is how many bytes a holder makes at most.
func (c *call) holderBytes() int {
	n := entryBytes * (1 + len(c.args))
	if c.name == "set" {
		return n
	}
	for _, a := range c.args {
		switch v := reflect.ValueOf(a); v.Kind() {
		case reflect.Slice, reflect.Array:
			n += 3 * valueBytes * v.Len()
		case reflect.Map:
			n += entryBytes * v.Len()
		}
		if n > maxMadeBytes {
			break
		}
	}
	return n
}

// rules are how many bytes a call makes at most, and how many steps it takes
// besides those for its size, where a function makes more than growth or takes
// more time. A rule may refuse a call.
var rules = map[string]func(c *call) (bytes, steps int, err error){
	"repeat": func(c *call) (int, int, error) { return times(c.int(0), len(c.text(1))), 0, nil },
	"indent": indented, "nindent": indented,
	"replace": func(c *call) (int, int, error) {
		return c.size + times(strings.Count(c.text(2), c.text(0)), len(c.text(1))), 0, nil
	},
	"wrap":     func(c *call) (int, int, error) { return times(c.size, 2), 0, nil },
	"wrapWith": func(c *call) (int, int, error) { return times(len(c.text(2)), len(c.text(1))+1), 0, nil },
	"join": func(c *call) (int, int, error) {
		return times(c.size, growth) + times(lengthOf(c.args[1]), len(c.text(0))), 0, nil
	},
	"split":  func(c *call) (int, int, error) { return times(countPieces(c.text(1), c.text(0)), 2*entryBytes), 0, nil },
	"splitn": func(c *call) (int, int, error) { return times(countPieces(c.text(2), c.text(0)), 2*entryBytes), 0, nil },
	"splitList": func(c *call) (int, int, error) {
		return times(countPieces(c.text(1), c.text(0)), valueBytes), 0, nil
	},
	"fromJson": decoded, "mustFromJson": decoded,
	"printf": func(c *call) (int, int, error) { return formatted(c.text(0), c.args[1:]), 0, nil },

	"until": func(c *call) (int, int, error) { return series(0, c.int(0), 1) },
	"untilStep": func(c *call) (int, int, error) {
		return series(c.int(0), c.int(1), c.int(2))
	},
	"seq":       sequence,
	"randAlpha": random, "randAlphaNum": random, "randAscii": random, "randNumeric": random, "randBytes": random,

	"uniq": compared, "mustUniq": compared, "without": compared, "mustWithout": compared,
	"add1f": decimals, "addf": decimals, "subf": decimals, "mulf": decimals, "divf": decimals,
	"semver": versions, "semverCompare": versions,
	"date": zoned, "dateInZone": zoned, "date_in_zone": zoned, "htmlDate": zoned, "htmlDateInZone": zoned,

	"regexMatch": matchOnceCost, "mustRegexMatch": matchOnceCost, "regexFind": matchOnceCost, "mustRegexFind": matchOnceCost,
	"regexFindAll": matchAllCost, "mustRegexFindAll": matchAllCost, "regexSplit": matchAllCost, "mustRegexSplit": matchAllCost,
	"regexReplaceAll": matchAllCost, "mustRegexReplaceAll": matchAllCost,
	"regexReplaceAllLiteral": matchAllCost, "mustRegexReplaceAllLiteral": matchAllCost,
}

// int is an argument that is one, else 0.
func (c *call) int(i int) int {
	if i < len(c.args) {
		if n, ok := c.args[i].(int); ok {
			return n
		}
	}
	return 0
}

// text is an argument that is one, else empty.
func (c *call) text(i int) string {
	if i < len(c.args) {
		if s, ok := c.args[i].(string); ok {
			return s
		}
	}
	return ""
}

// times is the product, at most a little more than anything may be. What is
// negative makes nothing: functions refuse it, or do nothing.
func times(a, b int) int {
	switch {
	case a <= 0 || b <= 0:
		return 0
	case a > maxMadeBytes/b:
		return maxMadeBytes + 1
	}
	return a * b
}

func indented(c *call) (bytes, steps int, err error) {
	text := c.text(1)
	return c.size + times(c.int(0), strings.Count(text, "\n")+1), 0, nil
}

// countPieces is how many pieces a separator makes of a text.
func countPieces(text, separator string) int {
	if separator == "" {
		return utf8.RuneCountInString(text) + 1
	}
	return strings.Count(text, separator) + 1
}

// lengthOf is the length of a list, else 1.
func lengthOf(v any) int {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice || r.Kind() == reflect.Array {
		return r.Len()
	}
	return 1
}

// decoded: the shortest values, [] and 1, become 40 bytes and more.
func decoded(c *call) (bytes, steps int, err error) { return times(c.size, 3*growth), 0, nil }

// formatted is how long a text may get: the widths that it asks for, and each
// verb with the longest argument.
func formatted(format string, args []any) int {
	longest := 0
	for _, a := range args {
		longest = max(longest, sizeOf(maxMadeBytes, a).bytes)
	}
	bytes, number := len(format), 0
	for i := range len(format) {
		switch b := format[i]; {
		case b >= '0' && b <= '9':
			number = min(number*10+int(b-'0'), maxMadeBytes)
			continue
		case b == '*':
			for _, a := range args {
				if n, ok := a.(int); ok {
					bytes += min(max(n, -n, 0), maxMadeBytes)
				}
			}
		case strings.IndexByte("qxXUv", b) >= 0:
			bytes += times(longest, growth)
		case b == '%':
			bytes += longest + 400 // the longest number has 309 digits
		}
		bytes, number = min(bytes+number, 2*maxMadeBytes), 0
	}
	return bytes
}

// sequence reads the arguments of seq: END, START END, or START STEP END.
func sequence(c *call) (bytes, steps int, err error) {
	switch len(c.args) {
	case 1:
		return series(1, c.int(0), 1)
	case 2:
		return series(c.int(0), c.int(1), 1)
	case 3:
		return series(c.int(0), c.int(2), c.int(1))
	}
	return 0, 0, nil
}

// series returns the cost of a list of the numbers from start to stop.
func series(start, stop, step int) (bytes, steps int, err error) {
	for _, n := range []int{start, stop, step} {
		if n > maxNumber || n < -maxNumber {
			return 0, 0, fmt.Errorf("%d is too far from 0: %w", n, ErrLimit)
		}
	}
	return countCost(abs(stop-start) / max(abs(step), 1))
}

func random(c *call) (bytes, steps int, err error) {
	bytes, steps, err = countCost(c.int(0))
	return bytes, 50 * steps, err
}

// countCost returns the cost of n numbers or characters.
func countCost(n int) (bytes, steps int, err error) {
	if n > maxItems {
		return 0, 0, fmt.Errorf("%d is more than %d: %w", n, maxItems, ErrLimit)
	}
	return times(n, entryBytes), max(n, 0) / 50, nil
}

func abs(n int) int { return max(n, -n) }

// compared: each item of a list is compared with those before it, or with each
// that is to be left out.
func compared(c *call) (bytes, steps int, err error) {
	with := len(c.args) - 1
	if with == 0 {
		with = lengthOf(c.args[0])
	}
	return c.size, with * c.size / 800, nil
}

// decimals: an exact product has as many digits as all its factors.
func decimals(c *call) (bytes, steps int, err error) {
	if len(c.args) > maxDecimals {
		return 0, 0, fmt.Errorf("more than %d numbers: %w", maxDecimals, ErrLimit)
	}
	return 0, 10 * len(c.args), nil
}

func versions(c *call) (bytes, steps int, err error) {
	if c.texts() > maxVersionBytes {
		return 0, 0, fmt.Errorf("a version of more than %d bytes: %w", maxVersionBytes, ErrLimit)
	}
	return times(c.size, growth), 20 + c.texts(), nil
}

// zoned: time zones are read from files.
func zoned(c *call) (bytes, steps int, err error) { return times(c.size, growth), 50, nil }
