package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// unknownFlag is the error for flags that cannot be parsed. Of a flag that the command
// does not have it names the nearest that it has.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	given, name := "--"+unknown.GetSpecifiedName(), unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		given, name = "-"+letters, letters
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("no flag %s; did you mean --%s?", given, near)
	}
	return fmt.Errorf("no flag %s; %s --help lists them", given, cmd.CommandPath())
}

// noArguments refuses arguments of a command that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q: %s takes no arguments", args[0], cmd.CommandPath())
}

// checkSelector is an error if the label selector of -l cannot be parsed. It names the
// part that is wrong.
func checkSelector(text string) error {
	_, err := labels.Parse(text)
	if err == nil {
		return nil
	}
	for _, part := range selectorParts(text) {
		switch _, wrong := labels.Parse(part); {
		case part == "":
			return fmt.Errorf("-l %q: a part is empty: a comma stands between two parts", text)
		case wrong != nil && part != text:
			return fmt.Errorf("-l %q: %q: %w", text, part, wrong)
		}
	}
	return fmt.Errorf("-l %q: %w", text, err)
}

// selectorParts are the requirements of a label selector: what commas divide that are
// not in parentheses.
func selectorParts(text string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			parts = append(parts, strings.TrimSpace(text[begin:i]))
			begin = i + 1
		}
	}
	return append(parts, strings.TrimSpace(text[begin:]))
}
