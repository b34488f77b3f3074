package client

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// completionTimeout is how long the shell waits for names.
const completionTimeout = 2 * time.Second

// A Completer completes an argument of a command.
type Completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// CompleteGet completes "get KIND NAME..." and "get KIND/NAME...".
func (g *Globals) CompleteGet(std printer.Stdio) Completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case strings.Contains(typed, "/"):
			return g.CompleteObjects(std, cli.GrammarOf(cli.KindNames()...))(cmd, args, typed)
		case len(args) == 0:
			return cli.KindNames(), cobra.ShellCompDirectiveNoFileComp
		}
		return g.completeNames(cmd.Context(), std, args[0]), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteObjects completes the objects of a grammar: names of the kind that is
// typed or stands before, or that the position fixes; kinds where one is needed.
func (g *Globals) CompleteObjects(std printer.Stdio, gr cli.Grammar) Completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if word, _, slashed := strings.Cut(typed, "/"); slashed {
			var out []string
			for _, name := range g.completeNames(cmd.Context(), std, word) {
				out = append(out, word+"/"+name)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		refs, rest, err := gr.Parse(append(slices.Clone(args), "x")) // any name: what kind would it be?
		switch {
		case err != nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case len(rest) == 0:
			return g.completeNames(cmd.Context(), std, refs[len(refs)-1].Kind.Plural), cobra.ShellCompDirectiveNoFileComp
		case len(rest) > 1 || len(gr.Bare) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, k := range gr.Kinds {
			out = append(out, k.Singular+"/")
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeNames are the names of a kind, each once, or none where they cannot be had
// in time.
func (g *Globals) completeNames(ctx context.Context, std printer.Stdio, word string) []string {
	return g.objectTexts(ctx, std, word, (*unstructured.Unstructured).GetName)
}

// objectTexts are what pick finds in the objects of a kind, sorted, each once.
func (g *Globals) objectTexts(ctx context.Context, std printer.Stdio, word string, pick func(*unstructured.Unstructured) string) []string {
	k, err := cli.KindOf(word)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	std.Err = io.Discard
	s, err := g.Connect(ctx, std, true)
	if err != nil {
		return nil
	}
	qs, err := s.QueriesFor(ctx, k, "")
	if err != nil {
		return nil
	}
	var out []string
	for _, q := range qs {
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return nil
		}
		for _, u := range items {
			out = append(out, pick(u))
		}
	}
	return printer.Unique(out)
}

// CompleteFlags completes the flags that all commands have, and -o.
func (g *Globals) CompleteFlags(root *cobra.Command, std printer.Stdio) {
	Register(root, "namespace", func(ctx context.Context, _ string) []string {
		return printer.Unique(append(
			g.objectTexts(ctx, std, "clusters", (*unstructured.Unstructured).GetNamespace),
			g.objectTexts(ctx, std, "repos", (*unstructured.Unstructured).GetNamespace)...))
	})
	Register(root, "context", func(context.Context, string) []string { return g.contexts() })
	Register(root, "color", func(context.Context, string) []string {
		return []string{string(printer.ColorAlways), string(printer.ColorAuto), string(printer.ColorNever)}
	})
	completeFormats(root)
}

// completeFormats completes -o of a command and of all below it.
func completeFormats(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("output"); f != nil && f.Annotations[printer.FormatsKey] != nil {
		formats := f.Annotations[printer.FormatsKey]
		Register(cmd, "output", func(context.Context, string) []string { return formats })
	}
	for _, sub := range cmd.Commands() {
		completeFormats(sub)
	}
}

// objectFlags are the flags that name an object of a kind.
var objectFlags = map[string]string{"bundle": "bundles", "cluster": "clusters", "repo": "repos"}

// CompleteObjectFlags completes those flags of a command that name an object.
func (g *Globals) CompleteObjectFlags(cmd *cobra.Command, std printer.Stdio) {
	for name, kind := range objectFlags {
		if cmd.Flags().Lookup(name) != nil {
			Register(cmd, name, func(ctx context.Context, _ string) []string { return g.completeNames(ctx, std, kind) })
		}
	}
}

// CompleteStates completes states, divided by commas.
func CompleteStates(_ context.Context, typed string) []string {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var out []string
	for _, state := range view.StateNames() {
		out = append(out, before+state)
	}
	return out
}

// Register completes a flag with those values that begin with what is typed.
func Register(cmd *cobra.Command, flag string, values func(ctx context.Context, typed string) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		out := slices.DeleteFunc(slices.Clone(values(cmd.Context(), typed)), func(v string) bool { return !strings.HasPrefix(v, typed) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(out) == 1 && strings.HasSuffix(out[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return out, directive
	})
	if err != nil {
		panic(err) // the program names a flag that it does not have
	}
}

// CompleteFiles lets flags be completed with names of files.
func CompleteFiles(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := cmd.MarkFlagFilename(name); err != nil {
			panic(err) // the program names a flag that it does not have
		}
	}
}
