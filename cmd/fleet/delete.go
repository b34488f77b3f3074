package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

const deleteText = `Deletes a repo or a bundle, and with it everything that it has deployed. It first lists what goes, and asks; --yes answers the question.

A list that is above the deletion budget, or that has a PersistentVolumeClaim, Namespace or CustomResourceDefinition, needs more than --yes: the first
call deletes nothing and prints the HASH of the list (exit code 5); a second call with that HASH as last argument deletes it. If the list has
changed in between, its HASH is another one, and nothing is deleted (exit code 5).

With --keep the workloads stay on the clusters, no longer managed: it sets keepResources, waits until the agent of every cluster has it, and then
deletes the repo or bundle. It takes no HASH, since nothing is removed from a cluster.

A bundle that a GitRepo writes comes back as long as the repository has its files: remove them there, or delete the repo.

It waits until the object is gone, at most --timeout; --wait=false does not wait.

kubectl delete does the same without a question, and the deletion budget does not count there. What bears the annotation
` + fleet.AnnotationProtect + ` is not deleted by this command, and held when kubectl deletes it.`

var deletable = grammarOf("repos", "bundles")

type deleteOptions struct {
	kind    kind
	name    string
	hash    string
	yes     bool
	keep    bool
	wait    bool
	timeout time.Duration
	output  printer.Output
}

func newDeleteCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := deleteOptions{}
	cmd := &cobra.Command{
		Use: "delete KIND/NAME [HASH]", Short: "Delete a repo or bundle, after showing what goes with it", Long: deleteText,
		Example:           "  fleet delete -n fleet-default repo/shops\n  fleet delete -n fleet-default repo/shops 5a8c1f0e9d2b7c44\n  fleet delete -n fleet-default bundle/web --keep --yes",
		ValidArgsFunction: g.completeObjects(std, deletable),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := otherDeletion(args, g.namespace); err != nil {
				return err
			}
			if err := o.complete(args); err != nil {
				return err
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runDelete(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, brakeFormats...)
	fs.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&o.keep, "keep", false, "leave the workloads on the clusters: set keepResources, then delete; without HASH")
	fs.BoolVar(&o.wait, "wait", true, "wait until it is gone")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "wait so long at most")
	return cmd
}

func (o *deleteOptions) complete(args []string) error {
	refs, rest, err := deletable.parse(args)
	switch {
	case err != nil:
		return err
	case len(refs) != 1 || len(rest) > 1:
		return fmt.Errorf("want one %s; and the HASH where one is asked for%s", deletable.forms(), deletable.kindFirst(rest))
	}
	o.kind, o.name = refs[0].kind, refs[0].name
	if len(rest) == 1 {
		o.hash = rest[0]
	}
	switch {
	case o.timeout <= 0:
		return errors.New("--timeout must be above 0")
	case o.keep && o.hash != "":
		return errors.New("--keep removes nothing: it goes without HASH")
	}
	return o.output.CheckBefore(Deletion{}, brakeFormats...)
}

// ref is how commands name the object.
func (o deleteOptions) ref(s *session) string {
	return fmt.Sprintf("-n %s %s/%s", s.scope, o.kind.singular, o.name)
}

// runDelete shows what is deleted with an object, and deletes it if the user confirms.
func runDelete(ctx context.Context, o deleteOptions, s *session) error {
	var rest []string
	if o.hash != "" {
		rest = []string{o.hash}
	}
	if err := s.certain(ctx, []objectRef{{o.kind, o.name}}, rest...); err != nil {
		return err
	}
	d, err := s.doomed(ctx, o)
	if err != nil {
		return err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	doc := o.document(s, d)
	if !o.output.Machine() {
		o.show(s, doc)
	}
	absence, err := s.absence(ctx, view.ShardOf(d.object))
	if err != nil {
		return err
	}
	if absence != "" {
		s.std.Note("%s: nothing is removed from clusters meanwhile", absence)
	}
	doc.Outcome, err = o.carryOut(ctx, s, d)
	if doc.Kept = o.keep && doc.Outcome != outcomeRefused; err != nil {
		doc.Error = err.Error()
	}
	if o.output.Machine() {
		if printed := o.output.Print(s.std, doc, false); printed != nil {
			return printed
		}
	}
	return err
}

// Outcomes of a deletion.
const (
	outcomeRefused = "refused"
	outcomeDeleted = "deleted"
	outcomeOrdered = "ordered"
	outcomeHeld    = "held"
	outcomeTimeout = "timeout"
)

func (o deleteOptions) document(s *session, d *doomed) Deletion {
	_, message, lines := withdrawal.ReadText(d.verdict.Text())
	return Deletion{
		Document: printer.NewDocument("Deletion"), Object: o.kind.Kind, Name: s.scope + "/" + o.name, Hash: d.verdict.Hash, Message: message, Removes: lines,
		WrittenBy: d.writer, Bundles: len(d.bundles), Deployments: len(d.deployments), Clusters: len(withdrawal.Clusters(d.deployments)),
	}
}

// show prints what goes.
func (o deleteOptions) show(s *session, doc Deletion) {
	message := doc.Message
	if o.keep {
		message = "everything that it has deployed stays"
	}
	has := fmt.Sprintf("%s on %s", printer.Plural(doc.Deployments, "deployment"), printer.Plural(doc.Clusters, "cluster"))
	if o.kind.plural == "repos" {
		has = printer.Plural(doc.Bundles, "bundle") + ", " + has
	}
	printer.Say(s.std.Out, "%s %s has %s: %s\n", o.kind.singular, doc.Name, has, message)
	if doc.WrittenBy != "" {
		printer.Say(s.std.Out, "  it comes back: repo %s makes it again, unless its files are removed from the repository first\n", doc.WrittenBy)
	}
	if o.keep {
		return
	}
	for _, line := range doc.Removes {
		printer.Say(s.std.Out, "  %s\n", line)
	}
}

// carryOut deletes the object if the person wants that, and returns what became of it.
func (o deleteOptions) carryOut(ctx context.Context, s *session, d *doomed) (string, error) {
	if err := o.consent(s, d); err != nil {
		return outcomeRefused, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.timeout, errLeft)
	defer cancel()
	if o.keep {
		if err := s.keepAll(limited, o); err != nil {
			return outcomeTimeout, err
		}
	}
	if err := s.api.Delete(ctx, o.kind.resource(), s.scope, o.name); err != nil {
		return outcomeRefused, reached(s.server, err)
	}
	if !o.wait {
		o.say(s, "%s %s/%s is being deleted\n", o.kind.singular, s.scope, o.name)
		return outcomeOrdered, nil
	}
	outcome, err := s.untilGone(limited, o, d.object.GetUID())
	if err == nil {
		o.say(s, "%s %s/%s is deleted\n", o.kind.singular, s.scope, o.name)
	}
	return outcome, err
}

// consent is why an object is not deleted; nil where the person wants it.
func (o deleteOptions) consent(s *session, d *doomed) error {
	kind, name := o.kind.singular, s.scope+"/"+o.name
	hash := d.verdict.Hash
	switch {
	case d.object.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%w: %s %s is being deleted already", errRefused, kind, name)
	case d.guard != "":
		return fmt.Errorf("%w: %s %s is not deleted: %s; to allow it: kubectl -n %s annotate %s %s %s=%s --overwrite",
			errRefused, kind, name, d.guard, s.scope, o.kind.qualified(), o.name, fleet.AnnotationProtect, fleet.ProtectNot)
	case o.hash != "" && o.hash != hash:
		return fmt.Errorf("%w: %s is the hash of another list; this one is %s", errRefused, o.hash, hash)
	case o.hash != "":
		return nil
	case d.verdict.Held && !o.keep:
		return fmt.Errorf("%w: not deleted; fleet delete %s %s removes this list, with --keep everything stays", errRefused, o.ref(s), hash)
	case o.yes:
		return nil
	}
	answer, asked := s.std.Ask(fmt.Sprintf("delete %s %s? [y/N] ", kind, name))
	if !asked {
		return fmt.Errorf("%w: not deleted; to do so without a terminal: --yes", errRefused)
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return fmt.Errorf("%w: not deleted", errRefused)
	}
	return nil
}

func (o deleteOptions) say(s *session, format string, args ...any) {
	if !o.output.Machine() {
		printer.Say(s.std.Out, format, args...)
	}
}
