package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// NotThere is an error for those of some objects that are known not to exist, with the
// nearest that do. Objects without a name are passed over, and so are those of kinds
// that the user may not list.
func (s *Session) NotThere(ctx context.Context, refs ...cli.ObjectRef) error {
	var missing []error
	for _, ref := range refs {
		if ref.Name == "" {
			continue
		}
		items, err := s.EverywhereOf(ctx, ref.Kind)
		if err != nil {
			continue
		}
		var there []view.Key
		for _, u := range items {
			there = append(there, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
		if !slices.ContainsFunc(there, func(key view.Key) bool { return key.Name == ref.Name }) {
			missing = append(missing, s.Unknown(ctx, ref.Kind, ref.Name, there))
		}
	}
	return errors.Join(missing...)
}

// SwappedArgumentsError returns an error for arguments BUNDLE and CLUSTER if the first names no
// bundle but a cluster, with the command in the right order. It is nil where no cluster
// has the name of the first. cluster may be empty.
func (s *Session) SwappedArgumentsError(ctx context.Context, command, bundle, cluster string) error {
	r := &ExplainReader{S: s}
	if found, err := r.ListNamed(ctx, cli.MustKind("clusters"), bundle); err != nil || len(found) == 0 {
		return nil // not known to be swapped
	}
	right := "BUNDLE"
	what := fmt.Sprintf("%q is a cluster", bundle)
	if cluster != "" {
		if found, err := r.ListNamed(ctx, cli.MustKind("bundles"), cluster); err == nil && len(found) > 0 {
			right, what = cluster, what+fmt.Sprintf(" and %q a bundle", cluster)
		}
	}
	return fmt.Errorf("no bundle %q: %s; the bundle comes first: %s", bundle, what, s.CommandLine(command, right, bundle))
}

// CommandLine is a command with arguments, in the workspace of -n if there is one.
func (s *Session) CommandLine(command string, args ...string) string {
	words := []string{"fleet", command}
	if s.Scope != "" {
		words = append(words, "-n", s.Scope)
	}
	return strings.Join(append(words, Quoted(args)...), " ")
}

// Unknown is the error for a name that is not there, with the nearest that is, or those
// that are.
func Unknown(k cli.Kind, name, scope string, known []view.Key) error {
	var workspaces, names []string
	for _, key := range known {
		workspaces = append(workspaces, key.Namespace)
		names = append(names, key.Name)
	}
	slices.Sort(workspaces)
	workspaces = slices.Compact(workspaces)
	where := ""
	switch {
	case scope != "":
		where = " in " + scope
	case len(workspaces) > 3:
		where = fmt.Sprintf(" in %d workspaces", len(workspaces))
	case len(workspaces) > 0:
		where = " in " + strings.Join(workspaces, " or ")
	}
	text := fmt.Sprintf("no %s %q%s", k.Singular, name, where)
	if len(known) == 0 {
		return fmt.Errorf("%s; there are none", text)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("%s; did you mean %q?", text, near)
	}
	slices.Sort(names)
	return fmt.Errorf("%s; there are: %s", text, view.List(slices.Compact(names), MaxNames))
}

// Unknown is the error for an object that a command was asked about and that is not
// there: with -n, it names another workspace that has it. known are those that are there.
func (s *Session) Unknown(ctx context.Context, k cli.Kind, name string, known []view.Key) error {
	if s.Scope != "" {
		return s.notFoundError(ctx, k, name)
	}
	return Unknown(k, name, s.Scope, known)
}

// notFoundError is the error for an object that is not in the workspace, with where
// it is instead, or the nearest name.
func (s *Session) notFoundError(ctx context.Context, k cli.Kind, name string) error {
	wide := *s
	wide.Scope, wide.Narrowed = "", true
	qs, err := wide.QueriesFor(ctx, k, "")
	if errors.As(err, new(*NotManagementError)) {
		return err
	}
	if err != nil {
		return Unknown(k, name, s.Scope, nil)
	}
	var here []view.Key
	for _, q := range qs {
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			if u.GetName() == name {
				return fmt.Errorf("no %s %q in %s; there is one in %s: -n %s", k.Singular, name, s.Scope, u.GetNamespace(), u.GetNamespace())
			}
			if u.GetNamespace() == s.Scope {
				here = append(here, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
			}
		}
	}
	return Unknown(k, name, s.Scope, here)
}
