package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// Options are the options of fleet explain.
type Options struct {
	Bundle  string
	Cluster string // empty: all
	helmOp  bool   // the Bundle is named as helmop/NAME
	Output  printer.Output
	All     bool
	Watch   bool
	changes *explainChanges // with watch: the last output
}

// Grammar is what fleet explain works with. A HelmOp stands for its Bundle.
var Grammar = cli.Grammar{Kinds: cli.GrammarOf("bundles", "helmops", "clusters").Kinds, Bare: cli.BundleGrammar.Bare}

// Complete reads the arguments. workspace is that of -n.
func (o *Options) Complete(args []string, workspace string) (err error) {
	if err := o.Output.Check(Formats...); err != nil {
		return err
	}
	if o.Bundle, o.Cluster, err = Grammar.ParsePair(args); err != nil {
		return aboutRepo(err, args, workspace)
	}
	refs, _, err := Grammar.Parse(args)
	if err != nil {
		return err
	}
	o.helmOp = slices.ContainsFunc(refs, func(r cli.ObjectRef) bool { return r.Kind.Plural == "helmops" })
	if o.Bundle == "" {
		return errors.New("want BUNDLE, or BUNDLE CLUSTER; also as bundle/NAME cluster/NAME")
	}
	return nil
}

// aboutRepo is an error about arguments that name no bundle; of those that name a
// repository it says which commands are about that.
func aboutRepo(err error, args []string, workspace string) error {
	refs, _, wrong := cli.GrammarOf("repos").Parse(args)
	if wrong != nil || len(refs) == 0 {
		return err
	}
	s := client.Session{Scope: workspace}
	return fmt.Errorf("%w; how a repository is: %s; its bundles: %s", err,
		s.CommandLine("get", "repos", refs[0].Name, "-o", "wide"), s.CommandLine("get", "bundles", "--repo", refs[0].Name))
}

// Run prints the answer.
func Run(ctx context.Context, o Options, s *client.Session) error {
	r := &client.ExplainReader{S: s}
	if o.helmOp {
		if alone, err := withoutBundle(ctx, r, o); alone || err != nil {
			return err
		}
	}
	b, at, err := findSubject(ctx, r, o.Bundle, o.Cluster)
	if err != nil {
		return err
	}
	subject, err := readSubject(ctx, r, b)
	if err != nil {
		return err
	}
	if o.Cluster == "" {
		return overview(ctx, r, o, subject)
	}
	b = subject.Bundle
	if ns := at.Key.Namespace; ns != b.Namespace {
		if err := readMappings(ctx, r, &subject, []string{ns}); err != nil {
			return err
		}
	}
	if err := deployment(ctx, r, b, &at); err != nil {
		return err
	}
	if err := readClusterNames(ctx, r, &subject, at); err != nil {
		return err
	}
	subject.Hidden = r.Hidden
	e := explain.Explain(subject, at)
	if err := o.report(r, answer{b, at, changesOf(e), func() error { return o.printExplanation(s, e) }}); err != nil {
		return err
	}
	if !e.Ready() {
		return cli.EndingWith(cli.ErrNotReady)
	}
	return nil
}

// withoutBundle prints the answer about a HelmOp that has no Bundle, and reports whether it
// has none.
func withoutBundle(ctx context.Context, r *client.ExplainReader, o Options) (alone bool, err error) {
	op, err := findHelmOp(ctx, r, o.Bundle)
	if err != nil {
		return false, err
	}
	b, err := client.Read[fleet.Bundle](ctx, r, cli.MustKind("bundles").Resource(), op.Namespace, op.Name)
	if err != nil || b != nil && b.Labels[fleet.LabelHelmOpName] == op.Name || len(r.Hidden) > 0 {
		return false, err
	}
	if r.Manager, err = r.S.ManagerOf(ctx, view.ShardOf(op)); err != nil {
		return false, err
	}
	v := explain.WithoutBundle(explain.Subject{HelmOp: op, Now: r.S.Now()})
	stub := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace, Name: op.Name, Labels: map[string]string{fleet.LabelHelmOpName: op.Name}}}
	if err := o.report(r, answer{bundle: stub, changes: bundleExplanation(v), print: func() error { return o.printSurvey(r.S, v) }}); err != nil {
		return true, err
	}
	return true, cli.EndingWith(cli.ErrNotReady)
}

// overview prints the answer about all clusters.
func overview(ctx context.Context, r *client.ExplainReader, o Options, subject explain.Subject) error {
	places, err := clustersOf(ctx, r, &subject)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		subject.Elsewhere = r.S.WithClusters(ctx)
	}
	subject.Hidden = r.Hidden
	v := explain.Overview(subject, places)
	changes := answer{bundle: subject.Bundle, changes: bundleExplanation(v), print: func() error { return o.printSurvey(r.S, v) }}
	if err := o.report(r, changes); err != nil {
		return err
	}
	if v.Stopped() {
		return cli.EndingWith(cli.ErrNotReady)
	}
	return nil
}
