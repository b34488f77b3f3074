package support

import (
	"fmt"
	"slices"
	"strings"
)

// A Limit is an object of a limiting kind.
type Limit struct{ Kind, Name string }

// LimitReason says why nothing new is deployed in a namespace that holds these
// limits; it is empty where there are none. The message names one of them, the
// first by kind and name.
func LimitReason(limits []Limit) string {
	if len(limits) == 0 {
		return ""
	}
	first := slices.MinFunc(limits, func(a, b Limit) int {
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})
	text := fmt.Sprintf("%s %q limits this namespace and is not implemented yet: nothing new is deployed until it is gone",
		first.Kind, first.Name)
	if n := len(limits) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}
