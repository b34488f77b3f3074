package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// flagWords are words of users for which a flag has another name.
var flagWords = map[string]string{"workspace": "namespace"}

// UnknownFlag is the error for flags that cannot be parsed. For an unknown flag it
// names the nearest one that the command has.
func UnknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		return invalidValue(invalid)
	case !errors.As(err, &unknown):
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
	if near := nearestFlag(cmd, name, names); near != "" {
		return fmt.Errorf("no flag %s; did you mean --%s?", given, near)
	}
	return fmt.Errorf("no flag %s; %s --help lists them", given, cmd.CommandPath())
}

// invalidValue is the error for a flag whose value is of another type than the flag: it
// says what to write.
func invalidValue(err *pflag.InvalidValueError) error {
	flag, value := "--"+err.GetFlag().Name, err.GetValue()
	switch err.GetFlag().Value.Type() {
	case "bool":
		return fmt.Errorf("%s=%s: %s takes no value; write %s", flag, value, flag, flag)
	case "duration":
		if _, wrong := time.ParseDuration(value + "s"); wrong == nil {
			return fmt.Errorf("%s %s: a unit is missing; write %s %ss for seconds, or %sm for minutes", flag, value, flag, value, value)
		}
		return fmt.Errorf("%s %q: no duration; write it as 30s, 5m or 1h30m", flag, value)
	case "int", "int32", "int64":
		return fmt.Errorf("%s %q: want a whole number", flag, value)
	}
	return err
}

// namespaceFlags are the flags whose value is the name of a namespace, and whether it may
// be empty: what the command then uses.
var namespaceFlags = map[string]bool{"namespace": true, "target-namespace": true, "system-namespace": false, "agent-namespace": false}

// CheckNamespaces is an error for a flag of the user's that no namespace can be named by.
func CheckNamespaces(flags *pflag.FlagSet) error {
	var wrong error
	flags.Visit(func(f *pflag.Flag) {
		empty, names := namespaceFlags[f.Name]
		if value := f.Value.String(); wrong == nil && names && (value != "" || !empty) {
			wrong = CheckNamespace("--"+f.Name, value)
		}
	})
	return wrong
}

// CheckNamespace is an error if no namespace can have a name, which the user gave as what.
func CheckNamespace(what, name string) error {
	possible := func(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
	if possible(name) {
		return nil
	}
	text := fmt.Sprintf("%s %q is not possible: want at most %d lower case letters, digits and -, a letter or digit first and last",
		what, name, validation.DNS1123LabelMaxLength)
	if near := strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(strings.ToLower(name)); possible(near) {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(text)
}

// OfFlag is an error of the file that a flag names, with the flag; other errors stay as
// they are.
func OfFlag(flag string, err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return err
}

// CheckKubeVersion returns an error if --kube-version is no version of Kubernetes.
func CheckKubeVersion(version string) error {
	if version == "" {
		return nil
	}
	if _, err := schema.New(version); err != nil {
		return fmt.Errorf("--kube-version: %w", err)
	}
	return nil
}

// nearestFlag is the flag of a command that was most likely meant by a name, or by a
// letter that means a flag of that name in another command; empty where there is none.
func nearestFlag(cmd *cobra.Command, name string, names []string) string {
	if len(name) == 1 {
		return firstWithShorthand(cmd.Root(), name, names)
	}
	words := slices.Clone(names)
	for word, flag := range flagWords {
		if slices.Contains(names, flag) {
			words = append(words, word)
		}
	}
	near := spelling.Nearest(name, words)
	if flag := flagWords[near]; flag != "" && !slices.Contains(names, near) {
		return flag
	}
	return near
}

// firstWithShorthand is the first of some flags for which any command has a letter.
func firstWithShorthand(cmd *cobra.Command, letter string, names []string) string {
	if f := cmd.Flags().ShorthandLookup(letter); f != nil && !f.Hidden && slices.Contains(names, f.Name) {
		return f.Name
	}
	for _, c := range cmd.Commands() {
		if found := firstWithShorthand(c, letter, names); found != "" {
			return found
		}
	}
	return ""
}

// NoArguments refuses arguments of a command that takes none.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q: %s takes no arguments", args[0], cmd.CommandPath())
}

// selectorForms are the parts that a label selector may have.
const selectorForms = "want KEY=VALUE, KEY!=VALUE, 'KEY in (A,B)', 'KEY notin (A,B)', KEY or '!KEY', with a comma between two of them"

// CheckSelector returns an error if the label selector of -l cannot be parsed, or can
// never select anything. The error names the wrong part and the right form.
func CheckSelector(text string) error {
	selector, err := labels.Parse(text)
	if err == nil {
		return checkSelector(text, selector)
	}
	for _, part := range selectorParts(text) {
		_, wrong := labels.Parse(part)
		switch {
		case part == "":
			return fmt.Errorf("-l %q: a part is empty: a comma stands between two parts", text)
		case wrong == nil:
			continue
		}
		where := ""
		if part != text {
			where = fmt.Sprintf("%q: ", part)
		}
		if meant := meantSelector(part); meant != "" {
			return fmt.Errorf("-l %q: %sno label selector; did you mean %s?", text, where, meant)
		}
		return fmt.Errorf("-l %q: %sno label selector: %s", text, where, selectorForms)
	}
	return fmt.Errorf("-l %q: %w; %s", text, err, selectorForms)
}

// pairForms are what users write between a key and a value instead of =.
var pairForms = regexp.MustCompile(`^([^\s:=!<>()]+)(?:\s*:\s*=?|\s*={3,}\s*|\s*=\s*>\s*|\s+is\s+|\s+)([^\s:=!<>()]+)$`)

// meantSelector is the part of a label selector that was most likely meant by one that
// cannot be parsed; empty where that is unclear.
func meantSelector(part string) string {
	pair := pairForms.FindStringSubmatch(strings.Trim(part, `"'`))
	if pair == nil || slices.Contains([]string{"in", "notin", "exists"}, strings.ToLower(pair[2])) {
		return ""
	}
	meant := pair[1] + "=" + strings.Trim(pair[2], `"'`)
	if _, err := labels.Parse(meant); err != nil {
		return ""
	}
	return meant
}

// checkSelector is an error if a selector wants two values of one label, or one of no values.
func checkSelector(text string, selector labels.Selector) error {
	requirements, _ := selector.Requirements()
	wanted := map[string]string{}
	for i := range requirements {
		r := &requirements[i]
		values := r.Values()
		switch r.Operator() {
		case operators.Equals, operators.DoubleEquals:
			value, _ := values.PopAny()
			if other, twice := wanted[r.Key()]; twice && other != value {
				return fmt.Errorf("-l %q: no label has two values; did you mean '%s in (%s,%s)'?", text, r.Key(), other, value)
			}
			wanted[r.Key()] = value
		case operators.In, operators.NotIn:
			if values.Len() == 1 && values.Has("") {
				return fmt.Errorf("-l %q: no value stands in the parentheses of %s: %s", text, r.Key(), selectorForms)
			}
		}
	}
	return nil
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

// DocumentFormats are the values of -o of commands that print documents only.
var DocumentFormats = []string{printer.FormatJSON, printer.FormatYAML}

// LabelFlag is --label. Its hidden names are --labels and -l, which is a selector
// in all other commands.
func LabelFlag(fs *pflag.FlagSet, into *map[string]string, usage string) {
	LabelsVar(fs, into, "label", "", usage)
	HiddenFlag(fs, "label", "labels", "l")
}

// HiddenFlag gives a flag another name, and letter, that it had before: help does
// not list it.
func HiddenFlag(fs *pflag.FlagSet, name, old, letter string) {
	f := fs.Lookup(name)
	alias := fs.VarPF(f.Value, old, letter, "deprecated: the same as --"+name)
	alias.NoOptDefVal, alias.Hidden = f.NoOptDefVal, true
}
