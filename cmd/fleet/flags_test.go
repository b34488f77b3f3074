package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A misspelt flag of any command is answered with a flag of this command.
func TestUnknownFlag(t *testing.T) {
	root := newRootCommand(stdio{out: io.Discard, err: io.Discard})
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, c := range all {
		flags := map[string]string{"--worksapce": "--namespace", "--namspace": "--namespace"}
		c.InheritedFlags() // adds them to Flags
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if n := len(f.Name); n > 3 && !f.Hidden {
				swapped := "--" + f.Name[:n-2] + f.Name[n-1:] + f.Name[n-2:n-1]
				flags[swapped] = "--" + f.Name
			}
		})
		for given, want := range flags {
			if c.Flags().Lookup(strings.TrimPrefix(given, "--")) != nil {
				continue
			}
			err := c.Flags().Parse([]string{given})
			got := unknownFlag(c, err).Error()
			// --rule and --rules are equally near
			if tie := strings.HasPrefix(want, "--rule"); got != "no flag "+given+"; did you mean "+want+"?" && !tie {
				t.Errorf("%s: want %s, got %s", c.CommandPath(), want, got)
			}
		}
		for letter := 'a'; letter <= 'z'; letter++ {
			if c.Flags().ShorthandLookup(string(letter)) != nil {
				continue
			}
			err := c.Flags().Parse([]string{"-" + string(letter)})
			if err == nil || errors.Is(err, pflag.ErrHelp) {
				continue
			}
			_, near, found := strings.Cut(strings.TrimSuffix(unknownFlag(c, err).Error(), "?"), "did you mean --")
			if found && c.Flags().Lookup(near) == nil {
				t.Errorf("%s -%c: suggests --%s, which it does not have", c.CommandPath(), letter, near)
			}
		}
	}
}
