package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/takeover"
)

const takeoverText = `Another manager of the same API, such as the reference's, and this one can work side by side: each object belongs to one of them, by its label
` + fleet.LabelShardRef + `. What has none is the default's, what names a shard is that of the manager that was started with --shard-id.

A takeover is made in steps, each of which can be undone: check, start for one repository, look, start for more; docs/takeover.md is the story.`

const takeoverMoveText = `It looks for the GitRepos, and the Bundles that are from none, that the selector matches, and labels each with all that belongs to it: the GitRepo,
its Bundles, their BundleDeployments. Nothing else is written, and what has the right label already is not written at all: after an interruption the
same command does the rest. What belongs to a third shard is left alone.`

// takeoverOptions are the flags of fleet takeover start and undo.
type takeoverOptions struct {
	selector string
	move     takeover.Move
	yes      bool
	output   printer.Output
}

func newTakeoverCommand(g *globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "takeover", Short: "Pass objects from one manager to another, step by step", Long: takeoverText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTakeoverCheckCommand(g, std), newTakeoverMoveCommand(g, std, false), newTakeoverMoveCommand(g, std, true))
	return cmd
}

func newTakeoverMoveCommand(g *globals, std printer.Stdio, back bool) *cobra.Command {
	o := takeoverOptions{move: takeover.Move{Back: back}}
	cmd := &cobra.Command{
		Use: "start -l SELECTOR", Short: "Pass objects to the manager of a shard",
		Long: takeoverMoveText + "\n\nIt passes nothing to a shard without a running manager, unless --yes is given.", Args: noArguments,
		Example: "  fleet takeover check -n fleet-default\n  fleet takeover start -n fleet-default -l app=web\n  fleet takeover start -n fleet-default -l app=web --shard-id blue",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runTakeover(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	if back {
		cmd.Use, cmd.Short = "undo -l SELECTOR", "Give objects back to the default manager"
		cmd.Long, cmd.Example = takeoverMoveText, "  fleet takeover undo -n fleet-default -l app=web"
	} else {
		fs.BoolVarP(&o.yes, "yes", "y", false, "although nobody works on the shard")
	}
	fs.StringVarP(&o.selector, "selector", "l", "", "which GitRepos and Bundles, by their `labels`")
	fs.StringVar(&o.move.Shard, "shard-id", takeover.DefaultShard, "`id` of the manager that this is about")
	o.output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
	return cmd
}

func (o takeoverOptions) check() error {
	if o.selector == "" {
		return errors.New("want -l SELECTOR: which GitRepos, and Bundles that are from none; fleet get repos -o wide shows their labels")
	}
	if err := checkSelector(o.selector); err != nil {
		return err
	}
	if o.move.Shard == "" {
		return errors.New("--shard-id: an id is needed")
	}
	if err := (scope.Scope{Shard: o.move.Shard}).Validate(); err != nil {
		return fmt.Errorf("--shard-id: %w", err)
	}
	return o.output.CheckBefore(TakeoverMove{}, printer.FormatJSON, printer.FormatYAML)
}

// runTakeover passes objects on.
func runTakeover(ctx context.Context, o takeoverOptions, s *session) error {
	s.std.Note("%s, workspace %s", s.server, s.scope)
	if !o.move.Back && !o.yes {
		if err := s.works(ctx, o.move.Shard); err != nil {
			return err
		}
	}
	l := tally{at: map[string]int{}, objects: []MovedObject{}}
	err := o.pass(ctx, s, &l)
	doc := TakeoverMove{Document: printer.NewDocument("TakeoverMove"), Shard: o.move.Shard, Back: o.move.Back, Objects: l.objects}
	if o.output.Machine() {
		return errors.Join(o.output.Print(s.std, doc, false), err)
	}
	o.say(s, doc)
	return err
}

// fresh is how old the last renewal of a lease may be whose holder is at work.
const fresh = time.Minute

// works returns an error for a shard if no process holds the lease of the process that
// deploys, or of the one that reads repositories: no manager would look after its
// objects. It is another error if the user may not read the leases.
func (s *session) works(ctx context.Context, shard string) error {
	var missing []string
	for _, name := range []string{controllerLease, readerLease} {
		name = scope.Scope{Shard: shard}.Lease(name)
		u, err := s.api.Get(ctx, leases, s.system, name)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
			continue
		case apierrors.IsForbidden(err):
			return fmt.Errorf("this user may not see leases in %s: whether a manager works on shard %q is not known; --yes skips this check", s.system, shard)
		case err != nil:
			return reached(s.server, err)
		}
		lease, err := as[coordinationv1.Lease](u)
		if err != nil {
			return err
		}
		held := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" &&
			lease.Spec.RenewTime != nil && s.now().Sub(lease.Spec.RenewTime.Time) < fresh
		if !held {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: nobody works on shard %q: in %s nobody renews %s; start a manager with --shard-id=%s, or do it all the same with --yes",
		errRefused, shard, s.system, strings.Join(missing, " and "), shard)
}

// readerLease is the lease of the process that reads repositories.
const readerLease = "fleet-gitops-leader-election-shard"

// rounds is how often objects are looked at again: the other manager may be
// about to write some with the labels that it knew.
const rounds = 3

// pass labels what is selected until a look finds nothing to label.
func (o takeoverOptions) pass(ctx context.Context, s *session, l *tally) error {
	for range rounds {
		found, err := o.find(ctx, s)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("no GitRepo and no Bundle of workspace %s has labels %s", s.scope, o.selector)
		}
		written, failed := o.label(ctx, s, found, l)
		if failed != nil || written == 0 {
			return partlyDone(failed, len(l.objects))
		}
	}
	return nil
}

// partlyDone is the error of a move that could pass on some objects only.
func partlyDone(failed []error, of int) error {
	if len(failed) > 3 {
		failed = append(failed[:3:3], fmt.Errorf("and %d more", len(failed)-3))
	}
	return partly(failed, of)
}

// An owned is an object to hand over, and its kind.
type owned struct {
	kind   kind
	object *unstructured.Unstructured
}

// agentBundles is the prefix of the names of Bundles that install agents. They stay
// with the manager that installs agents.
const agentBundles = "fleet-agent-"

// find is what the selector means, in the order in which it is passed on: what
// makes objects before what it makes.
func (o takeoverOptions) find(ctx context.Context, s *session) ([]owned, error) {
	var out []owned
	list := func(plural, selector string, keep func(*unstructured.Unstructured) bool) error {
		k := mustKind(plural)
		q := query{resource: k.resource(), namespace: s.scope, labels: selector}
		if plural == "deployments" {
			q.namespace = ""
		}
		items, err := s.all(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			if keep(u) {
				out = append(out, owned{k, u})
			}
		}
		return nil
	}
	repos, bundles := map[string]bool{}, map[string]bool{}
	err := list("repos", o.selector, func(u *unstructured.Unstructured) bool { repos[u.GetName()] = true; return true })
	if err != nil {
		return nil, err
	}
	chosen, err := labels.Parse(o.selector)
	if err != nil {
		return nil, err
	}
	err = list("bundles", "", func(u *unstructured.Unstructured) bool {
		l := u.GetLabels()
		repo, alone := l[fleet.LabelRepoName], l[fleet.LabelRepoName] == "" && l[fleet.LabelHelmOpName] == ""
		alone = alone && !strings.HasPrefix(u.GetName(), agentBundles)
		bundles[u.GetName()] = repos[repo] || alone && chosen.Matches(labels.Set(l))
		return bundles[u.GetName()]
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	err = list("deployments", fleet.LabelBundleNamespace+"="+s.scope, func(u *unstructured.Unstructured) bool {
		return bundles[u.GetLabels()[fleet.LabelBundleName]]
	})
	return out, err
}

// label writes the labels that are wrong.
func (o takeoverOptions) label(ctx context.Context, s *session, found []owned, l *tally) (written int, failed []error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{fleet.LabelShardRef: o.move.Label()}}})
	if err != nil {
		return 0, []error{err}
	}
	for _, f := range found {
		name := f.object.GetNamespace() + "/" + f.object.GetName()
		relabel, why := o.move.Of(f.object.GetLabels())
		done := MovedObject{Kind: f.kind.Kind, Name: name, Error: why}
		if why != "" {
			failed = append(failed, fmt.Errorf("%w: %s %s: %s", errRefused, f.kind.singular, name, why))
		}
		if relabel {
			_, err := s.api.Patch(ctx, f.kind.resource(), f.object.GetNamespace(), f.object.GetName(), body)
			if err != nil {
				err = fmt.Errorf("%s %s: %w", f.kind.singular, name, reached(s.server, err))
				done.Error, failed = err.Error(), append(failed, err)
			} else {
				done.Changed = true
				written++
			}
		}
		l.add(done)
	}
	return written, failed
}

// A tally has what became of each object, once.
type tally struct {
	objects []MovedObject
	at      map[string]int // by kind and name
}

// add records the result for an object; a later result does not overwrite that it was
// changed.
func (l *tally) add(m MovedObject) {
	key := m.Kind + " " + m.Name
	i, ok := l.at[key]
	if !ok {
		l.at[key] = len(l.objects)
		l.objects = append(l.objects, m)
		return
	}
	m.Changed = m.Changed || l.objects[i].Changed
	l.objects[i] = m
}

// say prints what was done.
func (o takeoverOptions) say(s *session, doc TakeoverMove) {
	counts := map[string][2]int{}
	for _, m := range doc.Objects {
		n := counts[m.Kind]
		n[0]++
		if m.Changed {
			n[1]++
		}
		counts[m.Kind] = n
	}
	verb := "passed to shard " + o.move.Shard
	if o.move.Back {
		verb = "given back by shard " + o.move.Shard
	}
	for _, plural := range []string{"repos", "bundles", "deployments"} {
		k := mustKind(plural)
		if n := counts[k.Kind]; n[0] > 0 {
			printer.Say(s.std.Out, "%d of %s %s\n", n[1], pluralOf(n[0], k), verb)
		}
	}
	if counts["GitRepo"][1] > 0 && !o.move.Back {
		s.std.Note("if the other manager is the reference, its gitjob goes on asking these repositories until it is restarted: kubectl -n %s rollout restart deployment gitjob", s.system)
	}
}

// pluralOf is a number of objects of a kind.
func pluralOf(n int, k kind) string {
	if n == 1 {
		return "1 " + k.singular
	}
	return fmt.Sprintf("%d %s", n, k.plural)
}
