package summary

import (
	"fmt"
	"maps"
	"slices"
)

// OfBundles returns what Bundles of a GitRepo say, by name: the text of the first, and how
// many more there are. It is empty for none.
func OfBundles(texts map[string]string) string {
	names := slices.Sorted(maps.Keys(texts))
	if len(names) == 0 {
		return ""
	}
	text := "bundle " + names[0] + ": " + texts[names[0]]
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
