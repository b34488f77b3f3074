package printer

import (
	"fmt"
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
