package deletion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Deletable is what fleet delete works with.
var Deletable = cli.GrammarOf("repos", "helmops", "bundles")

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Kind    cli.Kind
	Name    string
	hash    string
	Yes     bool
	Keep    bool
	Wait    bool
	Timeout time.Duration
	Output  printer.Output
}

// Complete reads the arguments, and refuses flags that do not go together.
func (o *Options) Complete(args []string) error {
	refs, rest, err := Deletable.Parse(args)
	switch {
	case err != nil:
		return err
	case len(refs) != 1 || len(rest) > 1:
		return fmt.Errorf("want one %s; and the HASH where one is asked for%s", Deletable.Forms(), Deletable.KindFirst(rest))
	}
	o.Kind, o.Name = refs[0].Kind, refs[0].Name
	if len(rest) == 1 {
		o.hash = rest[0]
	}
	switch {
	case o.Timeout <= 0:
		return errors.New("--timeout must be above 0")
	case o.Keep && o.hash != "":
		return errors.New("--keep removes nothing: it goes without HASH")
	}
	return o.Output.CheckBefore(Deletion{}, cli.DocumentFormats...)
}

// ref is how commands name the object.
func (o Options) ref(s *client.Session) string {
	return fmt.Sprintf("-n %s %s/%s", s.Scope, o.Kind.Singular, o.Name)
}

// Run shows what is deleted with an object, and deletes it if the user confirms.
func Run(ctx context.Context, o Options, s *client.Session) error {
	var rest []string
	if o.hash != "" {
		rest = []string{o.hash}
	}
	if err := s.RequireUniqueWorkspace(ctx, []cli.ObjectRef{{Kind: o.Kind, Name: o.Name}}, rest...); err != nil {
		return err
	}
	d, err := findDoomed(ctx, s, o)
	if err != nil {
		return err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	doc := o.document(s, d)
	if !o.Output.IsMachineReadable() {
		o.printDeletion(s, doc)
	}
	absence, err := s.Absence(ctx, view.ShardOf(d.object))
	if err != nil {
		return err
	}
	if absence != "" {
		s.Std.Note("%s: nothing is removed from clusters meanwhile", absence)
	}
	doc.Outcome, err = o.carryOut(ctx, s, d)
	if doc.Kept = o.Keep && doc.Outcome != outcomeRefused; err != nil {
		doc.Error = err.Error()
	}
	if o.Output.IsMachineReadable() {
		if printed := o.Output.Print(s.Std, doc, false); printed != nil {
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
	OutcomeTimeout = "timeout"
)

func (o Options) document(s *client.Session, d *deletionTarget) Deletion {
	_, message, lines := withdrawal.ReadText(d.verdict.Text())
	return Deletion{
		Document: printer.NewDocument("Deletion"), Object: o.Kind.Kind, Name: s.Scope + "/" + o.Name, Hash: d.verdict.Hash, Message: message, Removes: lines,
		WrittenBy: d.writer, HelmOp: d.helmOp, Bundles: len(d.bundles), Deployments: len(d.deployments), Clusters: len(withdrawal.Clusters(d.deployments)),
	}
}

// printDeletion prints what goes.
func (o Options) printDeletion(s *client.Session, doc Deletion) {
	message := doc.Message
	if o.Keep {
		message = "everything that it has deployed stays"
	}
	has := fmt.Sprintf("%s on %s", printer.Plural(doc.Deployments, "deployment"), printer.Plural(doc.Clusters, "cluster"))
	if o.Kind.Plural == "repos" {
		has = printer.Plural(doc.Bundles, "bundle") + ", " + has
	}
	printer.Fprintf(s.Std.Out, "%s %s has %s: %s\n", o.Kind.Singular, doc.Name, has, message)
	if doc.WrittenBy != "" {
		printer.Fprintf(s.Std.Out, "  it comes back: repo %s makes it again, unless its files are removed from the repository first\n", doc.WrittenBy)
	}
	if doc.HelmOp != "" {
		printer.Fprintf(s.Std.Out, "  it comes back: helmop %s makes it again; to delete both: fleet delete -n %s helmop/%s\n", doc.HelmOp, s.Scope, doc.HelmOp)
	}
	if o.Keep {
		return
	}
	for _, line := range doc.Removes {
		printer.Fprintf(s.Std.Out, "  %s\n", line)
	}
}

// carryOut deletes the object if the person wants that, and returns what became of it.
func (o Options) carryOut(ctx context.Context, s *client.Session, d *deletionTarget) (string, error) {
	if err := o.askConsent(s, d); err != nil {
		return outcomeRefused, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.Timeout, client.ErrLeft)
	defer cancel()
	if o.Keep {
		if err := keepAll(limited, s, o, d); err != nil {
			return OutcomeTimeout, err
		}
	}
	if err := s.API.Delete(ctx, o.Kind.Resource(), s.Scope, o.Name); err != nil {
		return outcomeRefused, client.DescribeServerError(s.Server, err)
	}
	if !o.Wait {
		o.printf(s, "%s %s/%s is being deleted\n", o.Kind.Singular, s.Scope, o.Name)
		return outcomeOrdered, nil
	}
	outcome, err := UntilGone(limited, s, o, d.object.GetUID())
	if err == nil {
		o.printf(s, "%s %s/%s is deleted\n", o.Kind.Singular, s.Scope, o.Name)
	}
	return outcome, err
}

// askConsent is why an object is not deleted; nil where the person wants it.
func (o Options) askConsent(s *client.Session, d *deletionTarget) error {
	kind, name := o.Kind.Singular, s.Scope+"/"+o.Name
	hash := d.verdict.Hash
	switch {
	case d.object.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%w: %s %s is being deleted already", cli.ErrRefused, kind, name)
	case d.guard != "":
		return fmt.Errorf("%w: %s %s is not deleted: %s; to allow it: kubectl -n %s annotate %s %s %s=%s --overwrite",
			cli.ErrRefused, kind, name, d.guard, s.Scope, d.guarded.Qualified(), o.Name, fleet.AnnotationProtect, fleet.ProtectNot)
	case o.Keep && d.helmOp != "":
		return fmt.Errorf("%w: %s %s is not deleted: helmop %s takes keepResources off it again; to keep everything: fleet delete -n %s helmop/%s --keep",
			cli.ErrRefused, kind, name, d.helmOp, s.Scope, d.helmOp)
	case o.hash != "" && o.hash != hash:
		return fmt.Errorf("%w: %s is the hash of another list; this one is %s", cli.ErrRefused, o.hash, hash)
	case o.hash != "":
		return nil
	case d.verdict.Held && !o.Keep:
		return fmt.Errorf("%w: not deleted; fleet delete %s %s removes this list, with --keep everything stays", cli.ErrRefused, o.ref(s), hash)
	case o.Yes:
		return nil
	}
	answer, asked := s.Std.Ask(fmt.Sprintf("delete %s %s? [y/N] ", kind, name))
	if !asked {
		return fmt.Errorf("%w: not deleted; to do so without a terminal: --yes", cli.ErrRefused)
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return fmt.Errorf("%w: not deleted", cli.ErrRefused)
	}
	return nil
}

func (o Options) printf(s *client.Session, format string, args ...any) {
	if !o.Output.IsMachineReadable() {
		printer.Fprintf(s.Std.Out, format, args...)
	}
}
