package main

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

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Commands that write work in the default workspace where the user names none. That is
// safe only while no other workspace has an object of that name: an object that is
// also, or only, in another workspace is not written until the user names the
// workspace.

// maxWorkspaces is how many workspaces an error lists.
const maxWorkspaces = 10

// maxCommands is how many commands an error lists.
const maxCommands = 10

// writing gives a command that writes its workspace: the reference's default
// where neither -n nor the environment names one. It is an error if the environment
// names what cannot be a namespace.
func (g *globals) writing(cmd *cobra.Command) error {
	if g.namespace != "" {
		return nil
	}
	g.namespace = g.defaultNamespace
	if g.environment {
		return checkNamespace("NAMESPACE", g.namespace)
	}
	g.unnamed = cmd
	return nil
}

// certain refuses objects that the user named without a workspace, unless the default
// workspace has the only one of that name that the user may list. An object that does
// not exist is left to the command. rest are the arguments after the object.
func (s *session) certain(ctx context.Context, refs []objectRef, rest ...string) error {
	if s.unnamed == nil {
		return nil
	}
	var unsure []error
	for _, ref := range refs {
		if ref.kind.Kind == workspaceKind.Kind {
			continue
		}
		found, err := s.workspacesWith(ctx, ref)
		if err != nil {
			return err
		}
		if len(found) > 0 && (len(found) > 1 || found[0] != s.scope) {
			unsure = append(unsure, s.uncertain(ref, found, rest))
		}
	}
	return errors.Join(unsure...)
}

// uncertain is the error for an object that is elsewhere, with a command for each
// workspace that has it.
func (s *session) uncertain(ref objectRef, found, rest []string) error {
	head := fmt.Sprintf("no %s %q in %s, the workspace without -n; there is one elsewhere:", ref.kind.singular, ref.name, s.scope)
	if len(found) > 1 {
		head = fmt.Sprintf("%s %q is in %d workspaces; choose one:", ref.kind.singular, ref.name, len(found))
	}
	lines := []error{errors.New(head)}
	for _, ns := range found[:min(len(found), maxCommands)] {
		lines = append(lines, errors.New("  "+commandIn(s.unnamed, ns, append([]string{ref.argument(s.unnamed)}, rest...)...)))
	}
	if more := len(found) - maxCommands; more > 0 {
		lines = append(lines, fmt.Errorf("  and %d more", more))
	}
	return errors.Join(lines...)
}

// argument is how a command names the object: commands about clusters by NAME
// alone.
func (r objectRef) argument(cmd *cobra.Command) string {
	if cmd.HasParent() && cmd.Parent().Name() == "cluster" {
		return r.name
	}
	return r.String()
}

// workspacesWith are the workspaces that have an object and that the user may list, by
// name. It returns none for a user who may list none.
func (s *session) workspacesWith(ctx context.Context, ref objectRef) ([]string, error) {
	all := *s
	all.scope, all.narrowed = "", true
	queries, err := all.wide(ctx, ref.kind, "")
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, q := range queries {
		q.fields = "metadata.name=" + ref.name
		items, err := all.all(ctx, q)
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

// missing is an error if the namespace of -n is known not to be there, with the nearest
// workspace that is, or to be that of a cluster, with the workspace of the cluster.
func (s *session) missing(ctx context.Context) error {
	if s.scope == "" || s.unnamed != nil {
		return nil
	}
	return s.missingWorkspace(ctx, s.scope)
}

// missingWorkspace is missing for any workspace.
func (s *session) missingWorkspace(ctx context.Context, name string) error {
	u, err := s.api.Get(ctx, namespaces, "", name)
	if err == nil {
		return notWorkspace(u)
	}
	if !apierrors.IsNotFound(err) {
		return nil // the user may not know
	}
	if err := s.served(ctx); err != nil {
		return err
	}
	there := s.knownWorkspaces(ctx)
	if slices.Contains(there, name) {
		return nil // its namespace is being made
	}
	return s.unknownWorkspace(name, "", there)
}

// unknownWorkspace is the error for a workspace that does not exist, with the nearest of
// those that are there, or else a list of them and what to do.
func (s *session) unknownWorkspace(name, hint string, there []string) error {
	if len(there) > 0 {
		return noWorkspace(name, hint, there)
	}
	if near := spelling.Nearest(name, slices.DeleteFunc(s.usualWorkspaces(), func(other string) bool { return other == name })); near != "" {
		return noWorkspace(name, hint, []string{near})
	}
	return fmt.Errorf("no workspace %q; fleet workspace list shows them%s", name, hint)
}

// noWorkspace is unknownWorkspace where it is known which workspaces there are.
func noWorkspace(name, hint string, there []string) error {
	if near := spelling.Nearest(name, there); near != "" {
		return fmt.Errorf("no workspace %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("no workspace %q; there are: %s%s", name, view.List(there, maxWorkspaces), hint)
}

// knownWorkspaces are the workspaces that exist, by name: FleetWorkspaces, and
// namespaces that the manager has labelled, that hold Clusters or GitRepos, or that
// have the name of a workspace that Fleet makes. There are none where the user may
// not list namespaces.
func (s *session) knownWorkspaces(ctx context.Context) []string {
	all, _, err := s.listed(ctx, query{resource: namespaces, labels: fleet.LabelManaged + "!=true"})
	if err != nil {
		return nil
	}
	used := map[string]bool{fleet.NamespaceDefault: true, fleet.NamespaceLocal: true}
	for _, k := range []string{"clusters", "repos"} {
		_, _ = each(ctx, s.api, query{resource: mustKind(k).resource()}, func(u *unstructured.Unstructured) error {
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
	found, _, _ := s.listed(ctx, query{resource: records})
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

// connectWithin is connect for commands that look at what is in the workspace of -n. It
// is an error if there is no such workspace.
func (g *globals) connectWithin(ctx context.Context, std printer.Stdio, said bool) (*session, error) {
	s, err := g.connect(ctx, std, said)
	if err != nil {
		return nil, err
	}
	return s, s.missing(ctx)
}

// commandIn is a command line as the user gave it, for a workspace and with other
// arguments, ready to be pasted into a shell.
func commandIn(cmd *cobra.Command, workspace string, args ...string) string {
	words := append([]string{cmd.CommandPath(), "-n", workspace}, quoted(args)...)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "namespace":
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "stringToString":
			words = append(words, quoted([]string{"--" + f.Name, strings.Trim(value, "[]")})...)
		case f.NoOptDefVal != "":
			words = append(words, quoted([]string{"--" + f.Name + "=" + value})...)
		default:
			words = append(words, quoted([]string{"--" + f.Name, value})...)
		}
	})
	return strings.Join(words, " ")
}

// plainWord are the characters that no shell gives a meaning.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+"

// quoted are words as a shell takes them.
func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; w == "" || strings.Trim(w, plainWord) != "" {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return out
}
