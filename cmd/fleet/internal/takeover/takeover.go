package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/takeover"
)

// MoveOptions are the flags of fleet takeover start and undo.
type MoveOptions struct {
	Selector string
	Move     takeover.Move
	Yes      bool
	Output   printer.Output
}

// Check refuses flags that are missing or not possible.
func (o MoveOptions) Check() error {
	if o.Selector == "" {
		return errors.New("want -l SELECTOR: which GitRepos and HelmOps, and Bundles that are from none; fleet get repos,helmops -o wide shows their labels")
	}
	if err := cli.CheckSelector(o.Selector); err != nil {
		return err
	}
	if o.Move.Shard == "" {
		return errors.New("--shard-id: an id is needed")
	}
	if err := (scope.Scope{Shard: o.Move.Shard}).Validate(); err != nil {
		return fmt.Errorf("--shard-id: %w", err)
	}
	return o.Output.CheckBefore(TakeoverMove{}, printer.FormatJSON, printer.FormatYAML)
}

// Move passes objects on.
func Move(ctx context.Context, o MoveOptions, s *client.Session) error {
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	if !o.Move.Back && !o.Yes {
		if err := checkShardRuns(ctx, s, o.Move.Shard, client.ControllerLease, client.ReaderLease); err != nil {
			return err
		}
	}
	l := moveResults{at: map[string]int{}, objects: []MovedObject{}}
	err := o.labelObjects(ctx, s, &l)
	doc := TakeoverMove{Document: printer.NewDocument("TakeoverMove"), Shard: o.Move.Shard, Back: o.Move.Back, Objects: l.objects}
	if o.Output.IsMachineReadable() {
		return errors.Join(o.Output.Print(s.Std, doc, false), err)
	}
	o.printMove(s, doc)
	return err
}

// fresh is how old the last renewal of a lease may be whose holder is at work.
const fresh = time.Minute

// checkShardRuns returns an error for a shard if no process holds one of the leases: no
// manager would look after its objects. It is another error if the user may not read the
// leases.
func checkShardRuns(ctx context.Context, s *client.Session, shard string, leases ...string) error {
	var missing []string
	for _, name := range leases {
		name = scope.Scope{Shard: shard}.Lease(name)
		u, err := s.API.Get(ctx, client.Leases, s.System, name)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
			continue
		case apierrors.IsForbidden(err):
			return fmt.Errorf("this user may not see leases in %s: whether a manager works on shard %q is not known; --yes skips this check", s.System, shard)
		case err != nil:
			return client.DescribeServerError(s.Server, err)
		}
		lease, err := client.Convert[coordinationv1.Lease](u)
		if err != nil {
			return err
		}
		held := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" &&
			lease.Spec.RenewTime != nil && s.Now().Sub(lease.Spec.RenewTime.Time) < fresh
		if !held {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: nobody works on shard %q: in %s nobody renews %s; start a manager with --shard-id=%s, or do it all the same with --yes",
		cli.ErrRefused, shard, s.System, strings.Join(missing, " and "), shard)
}

// rounds is how often objects are looked at again: the other manager may be
// about to write some with the labels that it knew.
const rounds = 3

// labelObjects labels what is selected until a look finds nothing to label.
func (o MoveOptions) labelObjects(ctx context.Context, s *client.Session, l *moveResults) error {
	for range rounds {
		found, err := o.selectObjects(ctx, s)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("no GitRepo, HelmOp or Bundle of workspace %s has labels %s", s.Scope, o.Selector)
		}
		if !o.Move.Back && !o.Yes && slices.ContainsFunc(found, objectToMove.isHelmOp) {
			if err := checkShardRuns(ctx, s, o.Move.Shard, client.HelmOpsLease); err != nil {
				return err
			}
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
	return cli.PartialError(failed, of)
}

// An objectToMove is an object to hand over, and its kind.
type objectToMove struct {
	kind   cli.Kind
	object *unstructured.Unstructured
}

func (m objectToMove) isHelmOp() bool { return m.kind.Kind == helmOp }

// helmOp is the kind HelmOp.
const helmOp = "HelmOp"

// agentBundles is the prefix of the names of Bundles that install agents. They stay
// with the manager that installs agents.
const agentBundles = "fleet-agent-"

// selectObjects is what the selector means, in the order in which it is passed on: what
// makes objects before what it makes.
func (o MoveOptions) selectObjects(ctx context.Context, s *client.Session) ([]objectToMove, error) {
	var out []objectToMove
	list := func(plural, selector string, keep func(*unstructured.Unstructured) bool) error {
		k := cli.MustKind(plural)
		q := client.Query{Resource: k.Resource(), Namespace: s.Scope, Labels: selector}
		if plural == "deployments" {
			q.Namespace = ""
		}
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			if keep(u) {
				out = append(out, objectToMove{k, u})
			}
		}
		return nil
	}
	repos, ops, bundles := map[string]bool{}, map[string]bool{}, map[string]bool{}
	err := errors.Join(
		list("repos", o.Selector, func(u *unstructured.Unstructured) bool { repos[u.GetName()] = true; return true }),
		list("helmops", o.Selector, func(u *unstructured.Unstructured) bool { ops[u.GetName()] = true; return true }),
	)
	if err != nil {
		return nil, err
	}
	chosen, err := labels.Parse(o.Selector)
	if err != nil {
		return nil, err
	}
	err = list("bundles", "", func(u *unstructured.Unstructured) bool {
		l := u.GetLabels()
		repo, op := l[fleet.LabelRepoName], l[fleet.LabelHelmOpName]
		alone := repo == "" && op == "" && !strings.HasPrefix(u.GetName(), agentBundles)
		bundles[u.GetName()] = repos[repo] || ops[op] || alone && chosen.Matches(labels.Set(l))
		return bundles[u.GetName()]
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	err = list("deployments", fleet.LabelBundleNamespace+"="+s.Scope, func(u *unstructured.Unstructured) bool {
		return bundles[u.GetLabels()[fleet.LabelBundleName]]
	})
	return out, err
}

// label writes the labels that are wrong.
func (o MoveOptions) label(ctx context.Context, s *client.Session, found []objectToMove, l *moveResults) (written int, failed []error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{fleet.LabelShardRef: o.Move.Label()}}})
	if err != nil {
		return 0, []error{err}
	}
	for _, f := range found {
		name := f.object.GetNamespace() + "/" + f.object.GetName()
		relabel, why := o.Move.NeedsRelabel(f.object.GetLabels())
		done := MovedObject{Kind: f.kind.Kind, Name: name, Error: why}
		if why != "" {
			failed = append(failed, fmt.Errorf("%w: %s %s: %s", cli.ErrRefused, f.kind.Singular, name, why))
		}
		if relabel {
			_, err := s.API.Patch(ctx, f.kind.Resource(), f.object.GetNamespace(), f.object.GetName(), body)
			if err != nil {
				err = fmt.Errorf("%s %s: %w", f.kind.Singular, name, client.DescribeServerError(s.Server, err))
				done.Error, failed = err.Error(), append(failed, err)
			} else {
				done.Changed = true
				written++
			}
		}
		l.addResult(done)
	}
	return written, failed
}

// A moveResults has what became of each object, once.
type moveResults struct {
	objects []MovedObject
	at      map[string]int // by kind and name
}

// addResult records the result for an object; a later result does not overwrite that it was
// changed.
func (mr *moveResults) addResult(m MovedObject) {
	key := m.Kind + " " + m.Name
	i, ok := mr.at[key]
	if !ok {
		mr.at[key] = len(mr.objects)
		mr.objects = append(mr.objects, m)
		return
	}
	m.Changed = m.Changed || mr.objects[i].Changed
	mr.objects[i] = m
}

// printMove prints what was done.
func (o MoveOptions) printMove(s *client.Session, doc TakeoverMove) {
	counts := map[string][2]int{}
	for _, m := range doc.Objects {
		n := counts[m.Kind]
		n[0]++
		if m.Changed {
			n[1]++
		}
		counts[m.Kind] = n
	}
	verb := "passed to shard " + o.Move.Shard
	if o.Move.Back {
		verb = "given back by shard " + o.Move.Shard
	}
	for _, plural := range []string{"repos", "helmops", "bundles", "deployments"} {
		k := cli.MustKind(plural)
		if n := counts[k.Kind]; n[0] > 0 {
			printer.Fprintf(s.Std.Out, "%d of %s %s\n", n[1], pluralOf(n[0], k), verb)
		}
	}
	if o.Move.Back {
		return
	}
	if counts["GitRepo"][1] > 0 {
		s.Std.Note("if the other manager is the reference, its gitjob goes on asking these repositories until it is restarted: kubectl -n %s rollout restart deployment gitjob", s.System)
	}
	if counts[helmOp][1] > 0 {
		s.Std.Note("if the other manager is the reference, its helmops goes on polling these charts until it is restarted: kubectl -n %s rollout restart deployment helmops", s.System)
	}
}

// pluralOf is a number of objects of a kind.
func pluralOf(n int, k cli.Kind) string {
	if n == 1 {
		return "1 " + k.Singular
	}
	return fmt.Sprintf("%d %s", n, k.Plural)
}
