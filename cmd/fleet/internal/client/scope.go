package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// WorkspacesIn are the workspaces of keys.
func WorkspacesIn(keys []view.Key) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.Namespace
	}
	return out
}

// Commands that write work in the default workspace where the user names none. That is
// safe only while no other workspace has an object of that name: an object that is
// also, or only, in another workspace is not written until the user names the
// workspace.

// maxWorkspaces is how many workspaces an error lists.
const maxWorkspaces = 10

// maxCommands is how many commands an error lists.
const maxCommands = 10

// Writing gives a command that writes its workspace: rancher/fleet's default
// where neither -n nor the environment names one. It is an error if the environment
// names what cannot be a namespace.
func (g *Globals) Writing(cmd *cobra.Command) error {
	if g.Namespace != "" {
		return nil
	}
	g.Namespace = g.DefaultNamespace
	if g.Environment {
		return cli.CheckNamespace("NAMESPACE", g.Namespace)
	}
	g.unnamed = cmd
	return nil
}

// RequireUniqueWorkspace refuses objects that the user named without a workspace, unless the default
// workspace has the only one of that name that the user may list. An object that does
// not exist is left to the command. rest are the arguments after the object.
func (s *Session) RequireUniqueWorkspace(ctx context.Context, refs []cli.ObjectRef, rest ...string) error {
	if s.unnamed == nil {
		return nil
	}
	var unsure []error
	for _, ref := range refs {
		if ref.Kind.Kind == cli.WorkspaceKind.Kind {
			continue
		}
		found, err := s.workspacesWith(ctx, ref)
		if err != nil {
			return err
		}
		if len(found) > 0 && (len(found) > 1 || found[0] != s.Scope) {
			unsure = append(unsure, s.ambiguousError(ref, found, rest))
		}
	}
	return errors.Join(unsure...)
}

// ambiguousError is the error for an object that is elsewhere, with a command for each
// workspace that has it.
func (s *Session) ambiguousError(ref cli.ObjectRef, found, rest []string) error {
	head := fmt.Sprintf("no %s %q in %s, the workspace without -n; there is one elsewhere:", ref.Kind.Singular, ref.Name, s.Scope)
	if len(found) > 1 {
		head = fmt.Sprintf("%s %q is in %d workspaces; choose one:", ref.Kind.Singular, ref.Name, len(found))
	}
	lines := []error{errors.New(head)}
	for _, ns := range found[:min(len(found), maxCommands)] {
		lines = append(lines, errors.New("  "+commandIn(s.unnamed, ns, append([]string{argument(ref, s.unnamed)}, rest...)...)))
	}
	if more := len(found) - maxCommands; more > 0 {
		lines = append(lines, fmt.Errorf("  and %d more", more))
	}
	return errors.Join(lines...)
}

// argument is how a command names the object: commands about clusters by NAME
// alone.
func argument(r cli.ObjectRef, cmd *cobra.Command) string {
	if cmd.HasParent() && cmd.Parent().Name() == "cluster" {
		return r.Name
	}
	return r.String()
}

// workspacesWith are the workspaces that have an object and that the user may list, by
// name. It returns none for a user who may list none.
func (s *Session) workspacesWith(ctx context.Context, ref cli.ObjectRef) ([]string, error) {
	all := *s
	all.Scope, all.Narrowed = "", true
	queries, err := all.QueriesFor(ctx, ref.Kind, "")
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, q := range queries {
		q.Fields = "metadata.name=" + ref.Name
		items, err := all.ListAll(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, u := range items {
			found = append(found, u.GetNamespace())
		}
	}
	slices.Sort(found)
	return found, nil
}

// NamespaceError is an error if the namespace of -n is known not to be there, with the nearest
// workspace that is, or to be that of a cluster, with the workspace of the cluster.
func (s *Session) NamespaceError(ctx context.Context) error {
	if s.Scope == "" || s.unnamed != nil {
		return nil
	}
	return s.MissingWorkspace(ctx, s.Scope)
}

// MissingWorkspace is missing for any workspace.
func (s *Session) MissingWorkspace(ctx context.Context, name string) error {
	u, err := s.API.Get(ctx, Namespaces, "", name)
	if err == nil {
		return notWorkspace(u)
	}
	if !apierrors.IsNotFound(err) {
		return nil // the user may not know
	}
	if err := s.Served(ctx); err != nil {
		return err
	}
	there := s.KnownWorkspaces(ctx)
	if slices.Contains(there, name) {
		return nil // its namespace is being made
	}
	return s.UnknownWorkspace(name, "", there)
}

// UnknownWorkspace is the error for a workspace that does not exist, with the nearest of
// those that are there, or else a list of them and what to do.
func (s *Session) UnknownWorkspace(name, hint string, there []string) error {
	if len(there) > 0 {
		return NoWorkspace(name, hint, there)
	}
	if near := spelling.Nearest(name, slices.DeleteFunc(s.usualWorkspaces(), func(other string) bool { return other == name })); near != "" {
		return NoWorkspace(name, hint, []string{near})
	}
	return fmt.Errorf("no workspace %q; fleet workspace list shows them%s", name, hint)
}

// NoWorkspace is UnknownWorkspace where it is known which workspaces there are.
func NoWorkspace(name, hint string, there []string) error {
	if near := spelling.Nearest(name, there); near != "" {
		return fmt.Errorf("no workspace %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("no workspace %q; there are: %s%s", name, view.List(there, maxWorkspaces), hint)
}

// KnownWorkspaces are the workspaces that exist, by name: FleetWorkspaces, and
// namespaces that the manager has labelled, that hold Clusters or GitRepos, or that
// have the name of a workspace that Fleet makes. There are none where the user may
// not list namespaces.
func (s *Session) KnownWorkspaces(ctx context.Context) []string {
	all, _, err := s.Listed(ctx, Query{Resource: Namespaces, Labels: fleet.LabelManaged + "!=true"})
	if err != nil {
		return nil
	}
	used := map[string]bool{fleet.NamespaceDefault: true, fleet.NamespaceLocal: true}
	for _, k := range []string{"clusters", "repos"} {
		_, _ = VisitAll(ctx, s.API, Query{Resource: cli.MustKind(k).Resource()}, func(u *unstructured.Unstructured) error {
			used[u.GetNamespace()] = true
			return nil
		})
	}
	var names []string
	for _, ns := range all {
		if used[ns.GetName()] || ns.GetLabels()[fleet.LabelWorkspace] == "true" || ns.GetAnnotations()[workspace.AnnotationOrigin] != "" {
			names = append(names, ns.GetName())
		}
	}
	found, _, _ := s.Listed(ctx, Query{Resource: Records})
	for _, r := range found {
		names = append(names, r.GetName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// notWorkspace is an error if a namespace holds the deployments of a cluster.
func notWorkspace(ns *unstructured.Unstructured) error {
	workspace := ns.GetAnnotations()[fleet.AnnotationClusterNamespace]
	if ns.GetLabels()[fleet.LabelManaged] != "true" || workspace == "" {
		return nil
	}
	return fmt.Errorf("namespace %q is no workspace: it holds the deployments of cluster %s; its workspace is -n %s",
		ns.GetName(), ns.GetAnnotations()[fleet.AnnotationCluster], workspace)
}

// ConnectWithin is connect for commands that look at what is in the workspace of -n. It
// is an error if there is no such workspace.
func (g *Globals) ConnectWithin(ctx context.Context, std printer.Stdio, said bool) (*Session, error) {
	s, err := g.Connect(ctx, std, said)
	if err != nil {
		return nil, err
	}
	return s, s.NamespaceError(ctx)
}

// commandIn is a command line as the user gave it, for a workspace and with other
// arguments, ready to be pasted into a shell.
func commandIn(cmd *cobra.Command, workspace string, args ...string) string {
	words := append([]string{cmd.CommandPath(), "-n", workspace}, Quoted(args)...)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "namespace":
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "stringToString":
			words = append(words, Quoted([]string{"--" + f.Name, strings.Trim(value, "[]")})...)
		case f.NoOptDefVal != "":
			words = append(words, Quoted([]string{"--" + f.Name + "=" + value})...)
		default:
			words = append(words, Quoted([]string{"--" + f.Name, value})...)
		}
	})
	return strings.Join(words, " ")
}

// plainWord are the characters that no shell gives a meaning.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+"

// Quoted are words as a shell takes them.
func Quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; w == "" || strings.Trim(w, plainWord) != "" {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return out
}

// CertainCluster is certain for a cluster.
func (s *Session) CertainCluster(ctx context.Context, name string) error {
	return s.RequireUniqueWorkspace(ctx, []cli.ObjectRef{{Kind: cli.MustKind("clusters"), Name: name}})
}
