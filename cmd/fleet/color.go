package main

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// colored reports whether an answer has colours.
func (g *globals) colored(terminal bool) bool {
	switch g.color {
	case printer.ColorAlways:
		return true
	case printer.ColorNever:
		return false
	}
	return terminal && !g.plain
}
