package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// Options are the flags that both commands have.
type Options struct {
	DryRun bool
	Output printer.Output
}

// Pace is how long a command waits between two deletions: Min at first, each time Factor
// times longer, at most Max; with a random part.
type Pace struct {
	Min, Max time.Duration
	Factor   float64
}

// Validate refuses a Pace that does not slow down.
func (p Pace) Validate() error {
	switch {
	case p.Min <= 0:
		return fmt.Errorf("--min: %s is not a duration above 0", p.Min)
	case p.Max < p.Min:
		return fmt.Errorf("--max: %s is shorter than --min %s", p.Max, p.Min)
	case !(p.Factor > 1) || math.IsInf(p.Factor, 0):
		return fmt.Errorf("--factor: %v is not a finite number above 1", p.Factor)
	}
	return nil
}

// jitter is the random part of a pause, as a part of it.
const jitter = 0.1

func (p Pace) backoff() *wait.Backoff {
	return &wait.Backoff{Duration: p.Min, Cap: p.Max, Factor: p.Factor, Jitter: jitter, Steps: math.MaxInt32}
}

// A leftover is one object to delete.
type leftover struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
	reason   string
	// check looks once more, directly before the deletion, whether the object is still left
	// over; nil: its version says so.
	check func(context.Context) error
}

// errChanged is the error for an object that is no leftover any more.
var errChanged = fmt.Errorf("%w: it has changed since it was read; run the command again", cli.ErrRefused)

// deleter deletes leftovers one after the other, and remembers what became of each.
type deleter struct {
	s      *client.Session
	dryRun bool
	pause  *wait.Backoff // nil: none
	done   []CleanedObject
	failed []error
}

// delete deletes a leftover. It returns an error only if the whole command must end.
func (d *deleter) delete(ctx context.Context, l leftover) error {
	o := CleanedObject{Kind: l.object.GetKind(), Name: l.object.GetName(), Reason: l.reason}
	if ns := l.object.GetNamespace(); ns != "" {
		o.Name = ns + "/" + o.Name
	}
	if d.dryRun {
		d.done = append(d.done, o)
		return nil
	}
	if len(d.done) == 0 {
		d.s.Std.Note("%s", d.s.Server)
	}
	if d.pause != nil && len(d.done) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d.pause.Step()):
		}
	}
	err := d.deleteNow(ctx, l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.Deleted = err == nil
	if err != nil {
		err = fmt.Errorf("%s %s: %w", o.Kind, o.Name, err)
		o.Error, d.failed = err.Error(), append(d.failed, err)
	}
	d.done = append(d.done, o)
	return nil
}

func (d *deleter) deleteNow(ctx context.Context, l leftover) error {
	if l.check != nil {
		if err := l.check(ctx); err != nil {
			return err
		}
	}
	err := client.AbsentOK(d.s.API.DeleteExactly(ctx, l.resource, l.object))
	if apierrors.IsConflict(err) {
		return errChanged
	}
	return client.DescribeServerError(d.s.Server, err)
}

// report prints what was done. The error is that of the deletions, or failed.
func (d *deleter) report(o Options, failed error) error {
	doc := CleanupReport{Document: printer.NewDocument("CleanupReport"), DryRun: d.dryRun, Objects: d.done}
	if doc.Objects == nil {
		doc.Objects = []CleanedObject{}
	}
	all := d.failed
	if failed != nil {
		all = append(all, failed)
	}
	err := cli.PartialError(shorten(all), len(d.done))
	if o.Output.IsMachineReadable() {
		return errors.Join(o.Output.Print(d.s.Std, doc, false), err)
	}
	deleted := 0
	for _, c := range doc.Objects {
		verb := "deleted"
		switch {
		case c.Deleted:
			deleted++
		case d.dryRun:
			verb = "would delete"
		default:
			verb = "kept"
		}
		printer.Fprintf(d.s.Std.Out, "%s %s %s: %s\n", verb, c.Kind, c.Name, c.Reason)
	}
	switch {
	case len(doc.Objects) == 0 && err == nil:
		d.s.Std.Note("nothing is left over")
	case d.dryRun:
		d.s.Std.Note("%d leftovers; nothing was deleted (--dry-run)", len(doc.Objects))
	default:
		d.s.Std.Note("%d of %d leftovers deleted", deleted, len(doc.Objects))
	}
	return err
}

// maxErrors is how many errors are printed.
const maxErrors = 3

func shorten(errs []error) []error {
	if len(errs) > maxErrors {
		return append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", len(errs)-maxErrors))
	}
	return errs
}

// checkBefore refuses output formats that there are not, before the first request.
func (o Options) checkBefore() error {
	return o.Output.CheckBefore(CleanupReport{}, printer.FormatJSON, printer.FormatYAML)
}
