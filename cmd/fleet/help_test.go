package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// commandPaths are the words of all commands of a tree, the tree's own first.
func commandPaths(c *cobra.Command, at []string) [][]string {
	out := [][]string{at}
	for _, sub := range c.Commands() {
		out = append(out, commandPaths(sub, append(slices.Clone(at), sub.Name()))...)
	}
	return out
}

// maxExample is how long a line may be that is there to be copied.
const maxExample = 100

// The help of every command fits a terminal of 60 and of 80 columns, and has 80
// where there is none. Only indented lines, which are there to be copied, may be
// longer.
func TestHelpFits(t *testing.T) {
	st := &stage{}
	root := command(st.globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, columns := range []int{0, 60, 80} {
		width := columns
		if width == 0 {
			width = 80
		}
		for _, path := range commandPaths(root, nil) {
			st.columns = columns
			text := st.run(t, append(slices.Clone(path), "--help"))
			if !strings.Contains(text, "Usage:") {
				t.Errorf("fleet %s --help: no usage in %q", strings.Join(path, " "), text)
			}
			example, long := false, true
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				switch line {
				case "Examples:":
					example = true
				case "Usage:", "Flags:", "Available Commands:":
					example, long = false, false
				}
				limit := width
				if example || long && strings.TrimLeft(line, " \t") != line {
					limit = maxExample
				}
				if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "        ")); n > limit {
					t.Errorf("fleet %s --help at %d columns: %d: %s", strings.Join(path, " "), columns, n, line)
				}
			}
		}
	}
}
