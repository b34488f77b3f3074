package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

const approveText = `A change that would remove more than the deletion budget, or any PersistentVolumeClaim, Namespace or CustomResourceDefinition of a bundle, waits
until a person says so: nothing of it is removed, all else goes on. Without arguments this lists what waits, in every workspace that you may list.

With KIND/NAME it shows what would be removed of a repo or bundle. It goes on with the HASH of that list, or whatever the list is with --yes. A
list that has changed since is another list: it has another HASH and is not approved (exit code 5).

The same is done by: kubectl annotate gitrepo NAME ` + fleet.AnnotationApproveDeletion + `=HASH --overwrite`

var approvable = []string{"repos", "bundles"}

type approveOptions struct {
	targets []string
	hash    string
	yes     bool
	output  output
}

func newApproveCommand(g *globals, std stdio) *cobra.Command {
	o := approveOptions{}
	cmd := &cobra.Command{
		Use: "approve [KIND/NAME... [HASH]]", Short: "Let go on what would remove much", Long: approveText,
		Example: "  fleet approve\n  fleet approve -n fleet-default repo/shops\n  fleet approve -n fleet-default repo/shops 5a8c1f0e9d2b7c44",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			if len(o.targets) > 0 {
				g.writing()
			}
			s, err := g.connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if len(o.targets) == 0 {
				return runHeld(cmd.Context(), o, s)
			}
			return runApprove(cmd.Context(), o, s)
		},
	}
	o.output.addFlag(cmd.Flags(), brakeFormats...)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "whatever the list is now")
	cmd.ValidArgsFunction = g.completeTargets(std, approvable...)
	return cmd
}

func (o *approveOptions) complete(args []string) error {
	if err := o.output.check(brakeFormats...); err != nil {
		return err
	}
	if n := len(args); n > 1 && !strings.Contains(args[n-1], "/") {
		args, o.hash = args[:n-1], args[n-1]
	}
	o.targets = args
	for _, t := range o.targets {
		if _, _, err := target(t, approvable...); err != nil {
			return err
		}
	}
	switch {
	case o.yes && len(o.targets) == 0:
		return errors.New("--yes goes with KIND/NAME: each list is looked at on its own")
	case o.hash != "" && o.yes:
		return errors.New("HASH and --yes go one without the other")
	case o.hash != "" && len(o.targets) > 1:
		return errors.New("a HASH is that of one list: want one KIND/NAME before it")
	}
	return nil
}

// heldOf is what waits to be approved of an object; its hash is empty where
// nothing does.
func heldOf(k kind, u *unstructured.Unstructured) HeldDeletion {
	hash, summary, lines := withdrawal.ReadText(u.GetAnnotations()[fleet.AnnotationDeletionHeld])
	return HeldDeletion{
		Kind: k.Kind, Name: u.GetNamespace() + "/" + u.GetName(), Hash: hash, Message: summary, Removes: lines,
	}
}

// runHeld lists all that waits to be approved.
func runHeld(ctx context.Context, o approveOptions, s *session) error {
	doc := DeletionApproval{Document: document("DeletionApproval")}
	var rows [][]string
	for _, plural := range approvable {
		k := mustKind(plural)
		qs, err := s.wide(ctx, k, "")
		if err != nil {
			return err
		}
		for _, q := range qs {
			items, err := s.all(ctx, q)
			if err != nil {
				return err
			}
			for _, u := range items {
				held := heldOf(k, u)
				if held.Hash == "" {
					continue
				}
				doc.Objects = append(doc.Objects, held)
				rows = append(rows, []string{u.GetNamespace(), k.singular + "/" + u.GetName(), held.Hash, held.Message})
			}
		}
	}
	switch {
	case o.output.machine():
		return o.output.print(s.std.out, doc, false)
	case len(rows) == 0:
		fmt.Fprintln(s.std.out, "nothing waits to be approved")
		return nil
	}
	t := &table{out: s.std.out, width: s.std.width(), columns: []column{{title: "WORKSPACE"}, {title: "OBJECT"}, {title: "HASH"}, {title: "WAITS"}}}
	t.print(rows, false)
	s.std.note("to see one whole: fleet approve -n %s %s", rows[0][0], rows[0][1])
	return nil
}

// runApprove shows what would be removed of objects, and approves it.
func runApprove(ctx context.Context, o approveOptions, s *session) error {
	s.std.note("%s, workspace %s", s.server, s.scope)
	doc := DeletionApproval{Document: document("DeletionApproval")}
	var failed []error
	for _, t := range o.targets {
		held, err := o.one(ctx, s, t)
		if err != nil {
			failed = append(failed, err)
			held.Error = err.Error()
		}
		doc.Objects = append(doc.Objects, held)
	}
	if o.output.machine() {
		if err := o.output.print(s.std.out, doc, false); err != nil {
			return err
		}
	}
	return partly(failed, len(o.targets))
}

// one shows what would be removed of one object, and approves it.
func (o approveOptions) one(ctx context.Context, s *session, arg string) (HeldDeletion, error) {
	k, name, err := target(arg, approvable...)
	if err != nil {
		return HeldDeletion{}, err
	}
	held := HeldDeletion{Kind: k.Kind, Name: s.scope + "/" + name}
	u, err := s.present(ctx, k, name)
	if err != nil {
		return held, err
	}
	if held = heldOf(k, u); held.Hash == "" {
		o.say(s, "nothing of %s %s waits to be approved\n", k.singular, held.Name)
		return held, nil
	}
	o.say(s, "%s %s %s:\n", k.singular, held.Name, held.Message)
	for _, line := range held.Removes {
		o.say(s, "  %s\n", line)
	}
	switch {
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

// say writes a line for people.
func (o approveOptions) say(s *session, format string, args ...any) {
	if !o.output.machine() {
		fmt.Fprintf(s.std.out, format, args...)
	}
}
