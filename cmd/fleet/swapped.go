package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// swapped returns an error for arguments BUNDLE and CLUSTER if the first names no
// bundle but a cluster, with the command in the right order. It is nil where no cluster
// has the name of the first. cluster may be empty.
func (s *session) swapped(ctx context.Context, command, bundle, cluster string) error {
	r := &reading{s: s}
	if found, err := r.named(ctx, mustKind("clusters"), bundle); err != nil || len(found) == 0 {
		return nil // not known to be swapped
	}
	right := "BUNDLE"
	what := fmt.Sprintf("%q is a cluster", bundle)
	if cluster != "" {
		if found, err := r.named(ctx, mustKind("bundles"), cluster); err == nil && len(found) > 0 {
			right, what = cluster, what+fmt.Sprintf(" and %q a bundle", cluster)
		}
	}
	return fmt.Errorf("no bundle %q: %s; the bundle comes first: %s", bundle, what, s.commandLine(command, right, bundle))
}

// commandLine is a command with arguments, in the workspace of -n if there is one.
func (s *session) commandLine(command string, args ...string) string {
	words := []string{"fleet", command}
	if s.scope != "" {
		words = append(words, "-n", s.scope)
	}
	return strings.Join(append(words, quoted(args)...), " ")
}

// kindFirst is the end of an error for arguments NAME KIND; empty for all others.
func (g grammar) kindFirst(args []string) string {
	if len(args) < 2 || g.isKind(args[0]) || !g.isKind(args[1]) || strings.Contains(args[0], "/") {
		return ""
	}
	k, _ := g.kindOf(args[1]) // isKind
	return fmt.Sprintf("; the kind comes first: %s", objectRef{k, args[0]})
}

// workspaceFirst is an error for arguments WORKSPACE and CLUSTER of fleet workspace move,
// which are the wrong way round; nil where they are not known to be so.
func workspaceFirst(o moveOptions, clusters []view.Key) error {
	for _, c := range clusters {
		if c.Name == o.to {
			return fmt.Errorf("no cluster %q, and %q is a cluster; the cluster comes first: fleet workspace move %s %s", o.cluster, o.to, o.to, o.cluster)
		}
	}
	return nil
}
