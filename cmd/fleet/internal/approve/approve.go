package approve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// approvable are the kinds whose objects have lists of what waits.
var approvable = []string{"repos", "bundles", "clusters"}

// Grammar also accepts HelmOps, whose lists their Bundles have, and workspaces, whose KIND
// NAME is no object of Fleet.
var Grammar = cli.Grammar{Kinds: append(cli.GrammarOf("repos", "helmops", "bundles", "clusters").Kinds, cli.WorkspaceKind)}

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Targets []cli.ObjectRef
	hash    string
	Yes     bool
	Keep    bool
	Output  printer.Output
}

// Complete reads the arguments, and refuses flags that do not go together.
func (o *Options) Complete(args []string) error {
	if err := o.Output.CheckBefore(DeletionApproval{}, cli.DocumentFormats...); err != nil {
		return err
	}
	refs, rest, err := Grammar.Parse(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 && (len(rest) > 1 || len(refs) == 0) {
		return fmt.Errorf("%q: want %s; HASH comes last%s", rest[0], Grammar.Forms(), Grammar.KindFirst(rest))
	}
	o.Targets, o.hash = refs, strings.Join(rest, "")
	for _, t := range o.Targets {
		if o.Keep && t.Kind.Kind != cli.WorkspaceKind.Kind {
			return fmt.Errorf("%q: --keep goes with %s/NAME", t, cli.WorkspaceWord)
		}
	}
	switch {
	case o.Keep && len(o.Targets) == 0:
		return fmt.Errorf("--keep goes with %s/NAME", cli.WorkspaceWord)
	case o.Keep && (o.Yes || o.hash != ""):
		return errors.New("--keep removes nothing: it goes without HASH and --yes")
	case o.Yes && len(o.Targets) == 0:
		return errors.New("--yes goes with KIND/NAME: each list is looked at on its own")
	case o.hash != "" && o.Yes:
		return errors.New("HASH and --yes go one without the other")
	case o.hash != "" && len(o.Targets) > 1:
		return errors.New("a HASH is that of one list: want one KIND/NAME before it")
	}
	return nil
}

// heldOf returns what waits for approval of an object; its hash is empty where nothing
// does.
func heldOf(k cli.Kind, u *unstructured.Unstructured) HeldDeletion {
	hash, summary, lines := withdrawal.ReadText(u.GetAnnotations()[fleet.AnnotationDeletionHeld])
	return HeldDeletion{
		Kind: k.Kind, Name: u.GetNamespace() + "/" + u.GetName(), Hash: hash, Message: summary, Removes: lines,
	}
}

// isApproved reports whether the user has approved the held list of deletions and the manager has
// not begun to delete.
func (h HeldDeletion) isApproved(u *unstructured.Unstructured) bool {
	return h.Hash != "" && u.GetAnnotations()[fleet.AnnotationApproveDeletion] == h.Hash
}

// approvedBefore is what is said of a list that a person has approved before.
const approvedBefore = "approved already, and has not begun"

// A heldList is what waits to be approved of repositories, bundles and clusters.
type heldList struct {
	objects    []HeldDeletion
	rows       [][]string // of a table, one for each object
	workspaces []string   // those whose bundles wait
	undecided  error      // the manager has still to decide what waits
	none       bool       // there is no object at all
	shards     []string   // of all objects
}

// listHeld reads what waits to be approved of the objects that the user may list, within -n.
func listHeld(ctx context.Context, s *client.Session) (heldList, error) {
	out := heldList{none: true}
	var repos []*unstructured.Unstructured
	for _, plural := range approvable {
		k := cli.MustKind(plural)
		items, err := s.EverywhereOf(ctx, k)
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
			if held.isApproved(u) {
				text = approvedBefore + ": " + text
			}
			out.objects = append(out.objects, held)
			out.rows = append(out.rows, []string{u.GetNamespace(), k.Singular + "/" + u.GetName(), held.Hash, text})
		}
	}
	return out, nil
}

// ListHeld lists all that waits to be approved.
func ListHeld(ctx context.Context, o Options, s *client.Session) error {
	found, err := listHeld(ctx, s)
	if err != nil {
		return err
	}
	if found.none {
		s.NoteNoManager(ctx)
		s.EmptyWorkspace()
	}
	doc := DeletionApproval{Document: printer.NewDocument("DeletionApproval"), Objects: found.objects}
	rows, undecided := found.rows, found.undecided
	spaces, err := heldOfWorkspaces(ctx, s, found.workspaces)
	if err != nil {
		return err
	}
	for _, held := range spaces {
		doc.Objects = append(doc.Objects, held)
		rows = append(rows, []string{held.Name, cli.WorkspaceWord + "/" + held.Name, held.Hash, held.Message})
	}
	absence, err := s.Absence(ctx, found.shards...)
	if err != nil {
		return err
	}
	if absence != "" {
		undecided = errors.Join(undecided, fmt.Errorf("%w: %s: whether more waits to be approved is not known", cli.ErrNotReady, absence))
	}
	switch {
	case o.Output.IsMachineReadable():
		return cmp.Or(o.Output.Print(s.Std, doc, false), undecided)
	case len(rows) == 0 && undecided != nil:
		return undecided
	case len(rows) == 0:
		fmt.Fprintln(s.Std.Out, "nothing waits to be approved")
		return nil
	}
	t := &printer.Table{Out: s.Std.Out, Width: s.Std.Width(), Columns: []printer.Column{{Title: "WORKSPACE"}, {Title: "OBJECT"}, {Title: "HASH"}, {Title: "WAITS", Text: true}}}
	t.Print(rows, false)
	s.Std.Note("to see one whole: fleet approve -n %s %s", rows[0][0], rows[0][1])
	return undecided
}

// checkExists is an error if there is no such object, or workspace, to decide about.
func checkExists(ctx context.Context, s *client.Session, ref cli.ObjectRef) error {
	if ref.Kind.Kind == cli.WorkspaceKind.Kind {
		_, err := heldOfWorkspace(ctx, s, ref.Name)
		return err
	}
	_, err := s.Present(ctx, ref.Kind, ref.Name)
	return err
}

// Run shows what would be removed of objects, and approves it.
func Run(ctx context.Context, o Options, s *client.Session) error {
	var rest []string
	if o.hash != "" {
		rest = []string{o.hash}
	}
	if err := s.RequireUniqueWorkspace(ctx, o.Targets, rest...); err != nil {
		return err
	}
	scope := s.Scope
	if t := o.Targets[0]; t.Kind.Kind == cli.WorkspaceKind.Kind {
		scope = t.Name
	}
	s.Std.Note("%s, workspace %s", s.Server, scope)
	if err := client.AllPresent(ctx, o.Targets, func(ctx context.Context, ref cli.ObjectRef) error { return checkExists(ctx, s, ref) }); err != nil {
		return err
	}
	doc := DeletionApproval{Document: printer.NewDocument("DeletionApproval")}
	var failed []error
	for _, t := range o.Targets {
		held, err := o.approveObject(ctx, s, t)
		if err != nil {
			failed = append(failed, err)
			held.Error = err.Error()
		}
		doc.Objects = append(doc.Objects, held)
	}
	if o.Output.IsMachineReadable() {
		if err := o.Output.Print(s.Std, doc, false); err != nil {
			return err
		}
	}
	return cli.PartialError(failed, len(o.Targets))
}

// approveObject shows what would be removed of one object, and approves it.
func (o Options) approveObject(ctx context.Context, s *client.Session, t cli.ObjectRef) (HeldDeletion, error) {
	k, name := t.Kind, t.Name
	if k.Kind == cli.WorkspaceKind.Kind {
		return o.workspace(ctx, s, name)
	}
	held := HeldDeletion{Kind: k.Kind, Name: s.Scope + "/" + name}
	u, err := s.Present(ctx, k, name)
	if err != nil {
		return held, err
	}
	listed, u, err := withList(ctx, s, k, u)
	if err != nil {
		return held, err
	}
	if held = heldOf(k, u); held.Hash == "" {
		if err := undecided(ctx, s, u); err != nil {
			return held, err
		}
		if said, err := o.heldAtRepo(ctx, s, u); said || err != nil {
			return held, err
		}
		return held, o.nothingOf(ctx, s, cli.ObjectRef{Kind: k, Name: held.Name}, u)
	}
	o.printf(s, "%s %s %s:\n", k.Singular, held.Name, held.Message)
	for _, line := range held.Removes {
		o.printf(s, "  %s\n", line)
	}
	switch {
	case o.hash == "" && !o.Yes && held.isApproved(u):
		o.printf(s, "%s\n", approvedBefore)
		return held, nil
	case o.hash == "" && !o.Yes:
		return held, fmt.Errorf("%w: not approved; fleet approve -n %s %s/%s %s removes this list", cli.ErrRefused, s.Scope, k.Singular, name, held.Hash)
	case o.hash != "" && o.hash != held.Hash:
		return held, fmt.Errorf("%w: %s is the hash of another list; this one is %s", cli.ErrRefused, o.hash, held.Hash)
	}
	approval := map[string]any{fleet.AnnotationApproveDeletion: held.Hash}
	if err := s.Merge(ctx, listed, name, map[string]any{"metadata": map[string]any{"annotations": approval}}); err != nil {
		return held, err
	}
	held.Approved = true
	o.printf(s, "approved\n")
	return held, nil
}

// nothingOf is nothing for an object. It is an error, not Ready, if the object's
// manager does not run: then it is unknown whether something waits. A former approval
// is known.
func (o Options) nothingOf(ctx context.Context, s *client.Session, t cli.ObjectRef, u *unstructured.Unstructured) error {
	what, approved := t.Kind.Singular+" "+t.Name, u.GetAnnotations()[fleet.AnnotationApproveDeletion]
	if o.hash != "" && o.hash == approved {
		return o.reportNothingHeld(s, what, approved)
	}
	absence, err := s.Absence(ctx, view.ShardOf(u))
	if err != nil {
		return err
	}
	if absence != "" {
		return fmt.Errorf("%w: %s: whether something of %s waits to be approved is not known", cli.ErrNotReady, absence, what)
	}
	return o.reportNothingHeld(s, what, approved)
}

// reportNothingHeld handles an object for which nothing waits. That is a failure for a user who
// approves something, unless it was approved before and is not done yet.
func (o Options) reportNothingHeld(s *client.Session, what, approved string) error {
	switch {
	case o.hash != "" && o.hash == approved || o.Keep && approved == fleet.ApproveKeep:
		o.printf(s, "%s was approved already\n", what)
	case o.hash != "" || o.Yes || o.Keep:
		return fmt.Errorf("nothing of %s waits to be approved; fleet approve lists what waits", what)
	default:
		o.printf(s, "nothing of %s waits to be approved\n", what)
	}
	return nil
}

// printf writes a line for people.
func (o Options) printf(s *client.Session, format string, args ...any) {
	if !o.Output.IsMachineReadable() {
		printer.Fprintf(s.Std.Out, format, args...)
	}
}
