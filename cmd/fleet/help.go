package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// plainWidth is how wide help is where stdout is no terminal.
const plainWidth = 80

// helper prints the help of commands at a width.
type helper struct{ printer.Paragraph }

// wrapHelp makes the help of a command and of all below it fit the terminal.
func wrapHelp(root *cobra.Command, std printer.Stdio) {
	width := std.Width()
	if width == 0 {
		width = plainWidth
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		cmd.InitDefaultHelpFlag()
		h := helper{printer.Paragraph{Out: cmd.OutOrStdout(), Width: width}}
		h.text(cmp.Or(cmd.Long, cmd.Short))
		fmt.Fprintln(h.Out)
		h.usage(cmd)
	})
}

// text prints paragraphs. Lines that are indented are there to be copied, and
// stay as they are.
func (h helper) text(text string) {
	var block []string
	flush := func() {
		if len(block) > 0 {
			h.Lines("", strings.Join(block, " "))
		}
		block = nil
	}
	for line := range strings.Lines(strings.TrimRight(text, " \t\n")) {
		line = strings.TrimRight(line, " \t\n")
		if line == "" || strings.TrimLeft(line, " \t") != line {
			flush()
			fmt.Fprintln(h.Out, line)
			continue
		}
		block = append(block, line)
	}
	flush()
}

// usage prints how a command is called, examples, the commands below it, and flags.
func (h helper) usage(cmd *cobra.Command) {
	fmt.Fprintln(h.Out, "Usage:")
	if cmd.Runnable() {
		h.printHanging("  ", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		h.printHanging("  ", cmd.CommandPath()+" [command]")
	}
	if cmd.HasExample() {
		fmt.Fprintf(h.Out, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(h.Out, "\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				h.Lines("  "+printer.Pad(sub.Name(), sub.NamePadding())+" ", sub.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		h.flags("Flags", cmd.LocalFlags().FlagUsagesWrapped(h.Width))
	}
	if cmd.HasAvailableInheritedFlags() {
		h.flags("Global Flags", cmd.InheritedFlags().FlagUsagesWrapped(h.Width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(h.Out)
		h.Lines("", fmt.Sprintf("Use %q for more information about a command.", cmd.CommandPath()+" [command] --help"))
	}
}

// printHanging prints a text whose further lines are indented deeper.
func (h helper) printHanging(prefix, text string) {
	first, rest, _ := strings.Cut(text, " ")
	h.Lines(prefix+first+" ", rest)
}

// flags prints what flags mean, without blanks at the end of lines.
func (h helper) flags(title, usages string) {
	fmt.Fprintf(h.Out, "\n%s:\n", title)
	for line := range strings.Lines(usages) {
		_, _ = io.WriteString(h.Out, strings.TrimRight(line, " \n")+"\n")
	}
}
