package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

const approveText = `A change that would remove more than the deletion budget, or any PersistentVolumeClaim, Namespace or CustomResourceDefinition of a bundle, waits
until a person says so: nothing of it is removed, all else goes on. Without arguments this lists what waits, in every workspace that you may list.

With KIND/NAME it shows what would be removed of a repo, bundle or cluster. It goes on with the HASH of that list, or whatever the list is with --yes. A
list that has changed since is another list: it has another HASH and is not approved (exit code 5).

A repo, bundle or cluster with the annotation ` + fleet.AnnotationProtect + ` that was deleted waits in the same way.

workspace/NAME is about bundles that were deleted with their namespace or their kind: with the HASH what they deployed is removed, with --keep they go
and everything stays.

The same is done by: kubectl annotate gitrepo NAME ` + fleet.AnnotationApproveDeletion + `=HASH --overwrite`

var approvable = []string{"repos", "bundles", "clusters"}

// approveGrammar also accepts workspaces, whose KIND NAME is no object of Fleet.
var approveGrammar = grammar{kinds: append(grammarOf(approvable...).kinds, workspaceKind)}

type approveOptions struct {
	targets []objectRef
	hash    string
	yes     bool
	keep    bool
	output  printer.Output
}

func newApproveCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := approveOptions{}
	cmd := &cobra.Command{
		Use: "approve [KIND/NAME... [HASH]]", Short: "Let go on what would remove much", Long: approveText,
		Example: "  fleet approve\n  fleet approve -n fleet-default repo/shops\n  fleet approve -n fleet-default repo/shops 5a8c1f0e9d2b7c44",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			if len(o.targets) > 0 {
				if err := g.writing(cmd); err != nil {
					return err
				}
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if len(o.targets) == 0 {
				return runHeld(cmd.Context(), o, s)
			}
			return runApprove(cmd.Context(), o, s)
		},
	}
	o.output.AddFlag(cmd.Flags(), brakeFormats...)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "whatever the list is now")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "of workspace/NAME: let its deleted bundles go and keep all that they deployed")
	cmd.ValidArgsFunction = g.completeObjects(std, approveGrammar)
	return cmd
}

func (o *approveOptions) complete(args []string) error {
	if err := o.output.CheckBefore(DeletionApproval{}, brakeFormats...); err != nil {
		return err
	}
	refs, rest, err := approveGrammar.parse(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 && (len(rest) > 1 || len(refs) == 0) {
		return fmt.Errorf("%q: want %s; HASH comes last%s", rest[0], approveGrammar.forms(), approveGrammar.kindFirst(rest))
	}
	o.targets, o.hash = refs, strings.Join(rest, "")
	for _, t := range o.targets {
		if o.keep && t.kind.Kind != workspaceKind.Kind {
			return fmt.Errorf("%q: --keep goes with %s/NAME", t, workspaceWord)
		}
	}
	switch {
	case o.keep && len(o.targets) == 0:
		return fmt.Errorf("--keep goes with %s/NAME", workspaceWord)
	case o.keep && (o.yes || o.hash != ""):
		return errors.New("--keep removes nothing: it goes without HASH and --yes")
	case o.yes && len(o.targets) == 0:
		return errors.New("--yes goes with KIND/NAME: each list is looked at on its own")
	case o.hash != "" && o.yes:
		return errors.New("HASH and --yes go one without the other")
	case o.hash != "" && len(o.targets) > 1:
		return errors.New("a HASH is that of one list: want one KIND/NAME before it")
	}
	return nil
}

// heldOf returns what waits for approval of an object; its hash is empty where nothing
// does.
func heldOf(k kind, u *unstructured.Unstructured) HeldDeletion {
	hash, summary, lines := withdrawal.ReadText(u.GetAnnotations()[fleet.AnnotationDeletionHeld])
	return HeldDeletion{
		Kind: k.Kind, Name: u.GetNamespace() + "/" + u.GetName(), Hash: hash, Message: summary, Removes: lines,
	}
}

// begins reports whether the list that waits was approved, and the manager has not begun.
func (h HeldDeletion) begins(u *unstructured.Unstructured) bool {
	return h.Hash != "" && u.GetAnnotations()[fleet.AnnotationApproveDeletion] == h.Hash
}

// approvedBefore is what is said of a list that a person has approved before.
const approvedBefore = "approved already, and has not begun"

// everywhereOf are all objects of a kind that the user may list, within -n.
func (s *session) everywhereOf(ctx context.Context, k kind) ([]*unstructured.Unstructured, error) {
	qs, err := s.wide(ctx, k, "")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, q := range qs {
		items, err := s.all(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
	}
	return out, nil
}

// A heldList is what waits to be approved of repositories, bundles and clusters.
type heldList struct {
	objects    []HeldDeletion
	rows       [][]string // of a table, one for each object
	workspaces []string   // those whose bundles wait
	undecided  error      // the manager has still to decide what waits
	none       bool       // there is no object at all
	shards     []string   // of all objects
}

// held reads what waits to be approved of the objects that the user may list, within -n.
func (s *session) held(ctx context.Context) (heldList, error) {
	out := heldList{none: true}
	var repos []*unstructured.Unstructured
	for _, plural := range approvable {
		k := mustKind(plural)
		items, err := s.everywhereOf(ctx, k)
		if err != nil {
			return out, err
		}
		out.none = out.none && len(items) == 0
		switch plural {
		case "repos":
			repos = items
		case "bundles":
			out.undecided = allUndecided(repos, items)
			if out.workspaces, err = heldWorkspaces(items); err != nil {
				return out, err
			}
		}
		for _, u := range items {
			out.shards = append(out.shards, view.ShardOf(u))
			held := heldOf(k, u)
			if held.Hash == "" {
				continue
			}
			text := held.Message
			if held.begins(u) {
				text = approvedBefore + ": " + text
			}
			out.objects = append(out.objects, held)
			out.rows = append(out.rows, []string{u.GetNamespace(), k.singular + "/" + u.GetName(), held.Hash, text})
		}
	}
	return out, nil
}

// runHeld lists all that waits to be approved.
func runHeld(ctx context.Context, o approveOptions, s *session) error {
	found, err := s.held(ctx)
	if err != nil {
		return err
	}
	if found.none {
		s.noteNoManager(ctx)
		s.emptyWorkspace()
	}
	doc := DeletionApproval{Document: printer.NewDocument("DeletionApproval"), Objects: found.objects}
	rows, undecided := found.rows, found.undecided
	spaces, err := s.heldOfWorkspaces(ctx, found.workspaces)
	if err != nil {
		return err
	}
	for _, held := range spaces {
		doc.Objects = append(doc.Objects, held)
		rows = append(rows, []string{held.Name, workspaceWord + "/" + held.Name, held.Hash, held.Message})
	}
	absence, err := s.absence(ctx, found.shards...)
	if err != nil {
		return err
	}
	if absence != "" {
		undecided = errors.Join(undecided, fmt.Errorf("%w: %s: whether more waits to be approved is not known", errNotReady, absence))
	}
	switch {
	case o.output.Machine():
		return cmp.Or(o.output.Print(s.std, doc, false), undecided)
	case len(rows) == 0 && undecided != nil:
		return undecided
	case len(rows) == 0:
		fmt.Fprintln(s.std.Out, "nothing waits to be approved")
		return nil
	}
	t := &printer.Table{Out: s.std.Out, Width: s.std.Width(), Columns: []printer.Column{{Title: "WORKSPACE"}, {Title: "OBJECT"}, {Title: "HASH"}, {Title: "WAITS", Text: true}}}
	t.Print(rows, false)
	s.std.Note("to see one whole: fleet approve -n %s %s", rows[0][0], rows[0][1])
	return undecided
}

// decidable is an error if there is no such object, or workspace, to decide about.
func (s *session) decidable(ctx context.Context, ref objectRef) error {
	if ref.kind.Kind == workspaceKind.Kind {
		_, err := s.heldOfWorkspace(ctx, ref.name)
		return err
	}
	_, err := s.present(ctx, ref.kind, ref.name)
	return err
}

// runApprove shows what would be removed of objects, and approves it.
func runApprove(ctx context.Context, o approveOptions, s *session) error {
	var rest []string
	if o.hash != "" {
		rest = []string{o.hash}
	}
	if err := s.certain(ctx, o.targets, rest...); err != nil {
		return err
	}
	scope := s.scope
	if t := o.targets[0]; t.kind.Kind == workspaceKind.Kind {
		scope = t.name
	}
	s.std.Note("%s, workspace %s", s.server, scope)
	if err := allPresent(ctx, o.targets, func(ctx context.Context, ref objectRef) error { return s.decidable(ctx, ref) }); err != nil {
		return err
	}
	doc := DeletionApproval{Document: printer.NewDocument("DeletionApproval")}
	var failed []error
	for _, t := range o.targets {
		held, err := o.one(ctx, s, t)
		if err != nil {
			failed = append(failed, err)
			held.Error = err.Error()
		}
		doc.Objects = append(doc.Objects, held)
	}
	if o.output.Machine() {
		if err := o.output.Print(s.std, doc, false); err != nil {
			return err
		}
	}
	return partly(failed, len(o.targets))
}

// one shows what would be removed of one object, and approves it.
func (o approveOptions) one(ctx context.Context, s *session, t objectRef) (HeldDeletion, error) {
	k, name := t.kind, t.name
	if k.Kind == workspaceKind.Kind {
		return o.workspace(ctx, s, name)
	}
	held := HeldDeletion{Kind: k.Kind, Name: s.scope + "/" + name}
	u, err := s.present(ctx, k, name)
	if err != nil {
		return held, err
	}
	if held = heldOf(k, u); held.Hash == "" {
		if err := s.undecided(ctx, u); err != nil {
			return held, err
		}
		if said, err := o.heldAtRepo(ctx, s, u); said || err != nil {
			return held, err
		}
		return held, o.nothingOf(ctx, s, objectRef{k, held.Name}, u)
	}
	o.say(s, "%s %s %s:\n", k.singular, held.Name, held.Message)
	for _, line := range held.Removes {
		o.say(s, "  %s\n", line)
	}
	switch {
	case o.hash == "" && !o.yes && held.begins(u):
		o.say(s, "%s\n", approvedBefore)
		return held, nil
	case o.hash == "" && !o.yes:
		return held, fmt.Errorf("%w: not approved; fleet approve -n %s %s/%s %s removes this list", errRefused, s.scope, k.singular, name, held.Hash)
	case o.hash != "" && o.hash != held.Hash:
		return held, fmt.Errorf("%w: %s is the hash of another list; this one is %s", errRefused, o.hash, held.Hash)
	}
	approval := map[string]any{fleet.AnnotationApproveDeletion: held.Hash}
	if err := s.merge(ctx, k, name, map[string]any{"metadata": map[string]any{"annotations": approval}}); err != nil {
		return held, err
	}
	held.Approved = true
	o.say(s, "approved\n")
	return held, nil
}

// nothingOf is nothing for an object. It is an error, not Ready, if the object's
// manager does not run: then it is unknown whether something waits. A former approval
// is known.
func (o approveOptions) nothingOf(ctx context.Context, s *session, t objectRef, u *unstructured.Unstructured) error {
	what, approved := t.kind.singular+" "+t.name, u.GetAnnotations()[fleet.AnnotationApproveDeletion]
	if o.hash != "" && o.hash == approved {
		return o.nothing(s, what, approved)
	}
	absence, err := s.absence(ctx, view.ShardOf(u))
	if err != nil {
		return err
	}
	if absence != "" {
		return fmt.Errorf("%w: %s: whether something of %s waits to be approved is not known", errNotReady, absence, what)
	}
	return o.nothing(s, what, approved)
}

// nothing handles an object for which nothing waits. That is a failure for a user who
// approves something, unless it was approved before and is not done yet.
func (o approveOptions) nothing(s *session, what, approved string) error {
	switch {
	case o.hash != "" && o.hash == approved || o.keep && approved == fleet.ApproveKeep:
		o.say(s, "%s was approved already\n", what)
	case o.hash != "" || o.yes || o.keep:
		return fmt.Errorf("nothing of %s waits to be approved; fleet approve lists what waits", what)
	default:
		o.say(s, "nothing of %s waits to be approved\n", what)
	}
	return nil
}

// say writes a line for people.
func (o approveOptions) say(s *session, format string, args ...any) {
	if !o.output.Machine() {
		printer.Say(s.std.Out, format, args...)
	}
}
