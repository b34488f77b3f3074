package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout is how long the shell waits for names.
const completionTimeout = 2 * time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeKindThenNames completes "get KIND NAME...".
func (g *globals) completeKindThenNames(std stdio) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return kindNames(), cobra.ShellCompDirectiveNoFileComp
		}
		return g.completeNames(cmd.Context(), std, args[0]), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTargets completes KIND/NAME.
func (g *globals) completeTargets(std stdio, allowed ...string) completer {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		word, _, named := strings.Cut(typed, "/")
		var out []string
		if !named {
			for _, k := range allowed {
				out = append(out, mustKind(k).singular+"/")
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		for _, name := range g.completeNames(cmd.Context(), std, word) {
			out = append(out, word+"/"+name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames are the names of a kind, or none where they cannot be had in
// time.
func (g *globals) completeNames(ctx context.Context, std stdio, word string) []string {
	k, err := kindOf(word)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	std.err = io.Discard
	s, err := g.connect(ctx, std, true)
	if err != nil {
		return nil
	}
	qs, err := s.wide(ctx, k, "")
	if err != nil {
		return nil
	}
	var out []string
	for _, q := range qs {
		items, err := s.all(ctx, q)
		if err != nil {
			return nil
		}
		for _, u := range items {
			out = append(out, u.GetName())
		}
	}
	return out
}

// completeFiles lets flags be completed with names of files.
func completeFiles(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := cmd.MarkFlagFilename(name); err != nil {
			panic(err) // the program names a flag that it does not have
		}
	}
}
