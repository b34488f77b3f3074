package printer

import (
	"fmt"
	"slices"
)

// Unique is a list in order, each entry once.
func Unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// Ready is how many of all are Ready.
type Ready struct{ Ready, All int }

func (r Ready) String() string { return fmt.Sprintf("%d/%d", r.Ready, r.All) }

// Dash returns "-" for an empty text.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
