package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// Options are the options of fleet explain.
type Options struct {
	Bundle  string
	Cluster string // empty: all
	Output  printer.Output
	All     bool
	Watch   bool
	changes *explainChanges // with watch: the last output
}

// Complete reads the arguments. workspace is that of -n.
func (o *Options) Complete(args []string, workspace string) (err error) {
	if err := o.Output.Check(Formats...); err != nil {
		return err
	}
	if o.Bundle, o.Cluster, err = cli.BundleGrammar.ParsePair(args); err != nil {
		return aboutRepo(err, args, workspace)
	}
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
