package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// plainWidth is how wide help is where stdout is no terminal.
const plainWidth = 80

// helper prints the help of commands at a width.
type helper struct{ paragraph }

// wrapHelp makes the help of a command and of all below it fit the terminal.
func wrapHelp(root *cobra.Command, std stdio) {
	width := std.width()
	if width == 0 {
		width = plainWidth
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		cmd.InitDefaultHelpFlag()
		h := helper{paragraph{out: cmd.OutOrStdout(), width: width}}
		h.text(cmp.Or(cmd.Long, cmd.Short))
		fmt.Fprintln(h.out)
		h.usage(cmd)
	})
}

// text prints paragraphs. Lines that are indented are there to be copied, and
// stay as they are.
func (h helper) text(text string) {
	var block []string
	flush := func() {
		if len(block) > 0 {
			h.lines("", strings.Join(block, " "))
		}
		block = nil
	}
	for line := range strings.Lines(strings.TrimRight(text, " \t\n")) {
		line = strings.TrimRight(line, " \t\n")
		if line == "" || strings.TrimLeft(line, " \t") != line {
			flush()
			fmt.Fprintln(h.out, line)
			continue
		}
		block = append(block, line)
	}
	flush()
}

// usage prints how a command is called, examples, the commands below it, and flags.
func (h helper) usage(cmd *cobra.Command) {
	fmt.Fprintln(h.out, "Usage:")
	if cmd.Runnable() {
		h.hanging("  ", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		h.hanging("  ", cmd.CommandPath()+" [command]")
	}
	if cmd.HasExample() {
		fmt.Fprintf(h.out, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(h.out, "\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				h.lines("  "+pad(sub.Name(), sub.NamePadding())+" ", sub.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		h.flags("Flags", cmd.LocalFlags().FlagUsagesWrapped(h.width))
	}
	if cmd.HasAvailableInheritedFlags() {
		h.flags("Global Flags", cmd.InheritedFlags().FlagUsagesWrapped(h.width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(h.out)
		h.lines("", fmt.Sprintf("Use %q for more information about a command.", cmd.CommandPath()+" [command] --help"))
	}
}

// hanging prints a text whose further lines are indented deeper.
func (h helper) hanging(prefix, text string) {
	first, rest, _ := strings.Cut(text, " ")
	h.lines(prefix+first+" ", rest)
}

// flags prints what flags mean, without blanks at the end of lines.
func (h helper) flags(title, usages string) {
	fmt.Fprintf(h.out, "\n%s:\n", title)
	for line := range strings.Lines(usages) {
		_, _ = io.WriteString(h.out, strings.TrimRight(line, " \n")+"\n")
	}
}
