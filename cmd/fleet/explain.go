package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
)

var explainFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

const explainText = `Says why a bundle is not Ready on a cluster, or that it is. The first line is the whole answer; then the links from the source to
healthy objects, up to the first that stops it or waits, what runs meanwhile, and what helps.

Without a cluster it has one line for each distinct answer, worst first. It reads what you may read: what is not yours to see is named, and
the other links are answered. With --watch it goes on until it is interrupted, and prints each new answer. It ends with 3 if the bundle is not Ready, or not known to be.`

// explainOptions are the options of fleet explain.
type explainOptions struct {
	bundle  string
	cluster string // empty: all
	output  printer.Output
	all     bool
	watch   bool
	changes *explainChanges // with watch: the last output
}

func newExplainCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use: "explain BUNDLE [CLUSTER]", Short: "Say why a bundle is not Ready on a cluster", Long: explainText,
		Example: `  fleet explain examples-web c3
  fleet explain examples-web
  fleet explain examples-web c3 -o jsonpath='{.stoppedAt} {.reason}'`,
		ValidArgsFunction: g.completeObjects(std, bundleGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Check(explainFormats...); err != nil {
				return err
			}
			var err error
			if o.bundle, o.cluster, err = bundleGrammar.pair(args); err != nil {
				return aboutRepo(err, args, g.namespace)
			}
			if o.bundle == "" {
				return errors.New("want BUNDLE, or BUNDLE CLUSTER; also as bundle/NAME cluster/NAME")
			}
			s, err := g.connectWithin(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			if o.watch {
				return watchExplain(cmd.Context(), o, s)
			}
			return runExplain(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, explainFormats...)
	fs.BoolVarP(&o.watch, "watch", "w", false, "then print each new answer, until interrupted")
	fs.BoolVar(&o.all, "links", false, "all links, also where all is well")
	hiddenFlag(fs, "links", "all", "")
	return cmd
}

// aboutRepo is an error about arguments that name no bundle; of those that name a
// repository it says which commands are about that.
func aboutRepo(err error, args []string, workspace string) error {
	refs, _, wrong := grammarOf("repos").parse(args)
	if wrong != nil || len(refs) == 0 {
		return err
	}
	s := session{scope: workspace}
	return fmt.Errorf("%w; how a repository is: %s; its bundles: %s", err,
		s.commandLine("get", "repos", refs[0].name, "-o", "wide"), s.commandLine("get", "bundles", "--repo", refs[0].name))
}

// runExplain prints the answer.
func runExplain(ctx context.Context, o explainOptions, s *session) error {
	r := &reading{s: s}
	b, at, err := r.find(ctx, o.bundle, o.cluster)
	if err != nil {
		return err
	}
	subject, err := r.subject(ctx, b)
	if err != nil {
		return err
	}
	if o.cluster == "" {
		return r.overview(ctx, o, subject)
	}
	b = subject.Bundle
	if ns := at.Key.Namespace; ns != b.Namespace {
		if err := r.beyond(ctx, &subject, []string{ns}); err != nil {
			return err
		}
	}
	if err := r.deployment(ctx, b, &at); err != nil {
		return err
	}
	if err := r.neighbours(ctx, &subject, at); err != nil {
		return err
	}
	subject.Hidden = r.hidden
	e := explain.Of(subject, at)
	if err := o.report(r, answer{b, at, changesOf(e), func() error { return o.print(s, e) }}); err != nil {
		return err
	}
	if !e.Ready() {
		return endingWith(errNotReady)
	}
	return nil
}

// overview prints the answer about all clusters.
func (r *reading) overview(ctx context.Context, o explainOptions, subject explain.Subject) error {
	places, err := r.places(ctx, &subject)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		subject.Elsewhere = r.s.withClusters(ctx)
	}
	subject.Hidden = r.hidden
	v := explain.Overview(subject, places)
	changes := answer{bundle: subject.Bundle, changes: bundleExplanation(v), print: func() error { return o.printSurvey(r.s, v) }}
	if err := o.report(r, changes); err != nil {
		return err
	}
	if v.Stopped() {
		return endingWith(errNotReady)
	}
	return nil
}
