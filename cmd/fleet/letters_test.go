package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// ofTheReference are the commands that keep the letters of rancher/fleet's
// command line, whatever these mean elsewhere. docs/cli/README.md lists them.
var ofTheReference = []string{"fleet apply", "fleet test", "fleet target", "fleet deploy", "fleet bundlediff", "fleet dump", "fleet analyze"}

// A letter stands for one flag in all commands, and --all for one thing, except
// in the commands that keep rancher/fleet's.
func TestLetters(t *testing.T) {
	meaning, everything := map[string]string{}, map[string]bool{}
	yes := map[string]string{}
	root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpFlag()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		visit := func(f *pflag.Flag) {
			switch {
			case f.Hidden || slices.Contains(ofTheReference, c.CommandPath()):
			case f.Shorthand != "" && meaning[f.Shorthand] == "":
				meaning[f.Shorthand] = f.Name
			case f.Shorthand != "" && meaning[f.Shorthand] != f.Name:
				t.Errorf("%s: -%s is --%s, and --%s elsewhere", c.CommandPath(), f.Shorthand, f.Name, meaning[f.Shorthand])
			}
			if f.Name == "all" && !f.Hidden && !slices.Contains(ofTheReference, c.CommandPath()) {
				everything[f.Usage] = true
			}
			if f.Name == "yes" {
				yes[c.CommandPath()] = f.Shorthand
			}
		}
		c.LocalFlags().VisitAll(visit)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if len(everything) != 1 {
		t.Errorf("--all means %d things: %v", len(everything), everything)
	}
	for path, letter := range yes {
		if letter != "y" {
			t.Errorf("%s: --yes has no -y", path)
		}
	}
	page, err := os.ReadFile("../../docs/cli/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range ofTheReference {
		if !strings.Contains(string(page), "`"+strings.TrimPrefix(path, "fleet ")+"`") {
			t.Errorf("docs/cli/README.md does not list %q among the commands with letters of their own", path)
		}
	}
}
