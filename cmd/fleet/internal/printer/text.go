package printer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pad fills a text with blanks up to n characters.
func Pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

// Plural is a number of things, such as "2 clusters".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Unique is a list in order, each entry once.
func Unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// Ready is how many of all are Ready.
type Ready struct{ Ready, All int }

func (r Ready) String() string { return fmt.Sprintf("%d/%d", r.Ready, r.All) }

// OrDash returns "-" for an empty text.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
