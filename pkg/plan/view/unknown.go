package view

import (
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// NoSuch says that an object of a kind does not exist, with the nearest name of
// those that do: `there is no cluster "c22" in shops; did you mean "c2"?`.
func NoSuch(kind, name, where string, known []string) string {
	text := fmt.Sprintf("there is no %s %q in %s", kind, name, where)
	if near := spelling.Nearest(name, known); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}
