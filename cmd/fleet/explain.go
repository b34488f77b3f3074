package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/plan/explain"
)

var explainFormats = []string{formatWide, formatJSON, formatYAML}

const explainText = `Says why a bundle is not Ready on a cluster, or that it is. The first line is the whole answer; then the links from the source to
healthy objects, up to the first that stops it or waits, what runs meanwhile, and what helps.

Without a cluster it has one line for each distinct answer, worst first. It reads what you may read: what is not yours to see is named, and
the other links are answered. It ends with 3 if the bundle is not Ready, or not known to be.`

// explainOptions are what fleet explain can be told.
type explainOptions struct {
	bundle  string
	cluster string // empty: all
	output  output
	all     bool
}

func newExplainCommand(g *globals, std stdio) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use: "explain BUNDLE [CLUSTER]", Short: "Say why a bundle is not Ready on a cluster", Long: explainText,
		Args: wantBundle,
		Example: `  fleet explain examples-web c3
  fleet explain examples-web
  fleet explain examples-web c3 -o jsonpath='{.stoppedAt} {.reason}'`,
		ValidArgsFunction: g.completeBundleThenCluster(std),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.check(explainFormats...); err != nil {
				return err
			}
			o.bundle = args[0]
			if len(args) > 1 {
				o.cluster = args[1]
			}
			s, err := g.connect(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			return runExplain(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.addFlag(fs, explainFormats...)
	fs.BoolVar(&o.all, "all", false, "all links, also where all is well")
	return cmd
}

// wantBundle refuses an explanation of nothing.
func wantBundle(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("want BUNDLE, or BUNDLE CLUSTER")
	}
	return nil
}

func (g *globals) completeBundleThenCluster(std stdio) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		word := "bundles"
		switch len(args) {
		case 0:
		case 1:
			word = "clusters"
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.completeNames(cmd.Context(), std, word), cobra.ShellCompDirectiveNoFileComp
	}
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
	if ns := at.Key.Namespace; ns != b.Namespace {
		if err := r.beyond(ctx, &subject, []string{ns}); err != nil {
			return err
		}
	}
	if err := r.deployment(ctx, b, &at); err != nil {
		return err
	}
	subject.Hidden = r.hidden
	e := explain.Of(subject, at)
	r.note()
	if err := o.print(s, e); err != nil {
		return err
	}
	if !e.Ready() {
		return told{errNotReady}
	}
	return nil
}

// overview prints the answer about all clusters.
func (r *reading) overview(ctx context.Context, o explainOptions, subject explain.Subject) error {
	places, err := r.places(ctx, &subject)
	if err != nil {
		return err
	}
	subject.Hidden = r.hidden
	v := explain.Overview(subject, places)
	r.note()
	if err := o.printSurvey(r.s, v); err != nil {
		return err
	}
	if v.Stopped() {
		return told{errNotReady}
	}
	return nil
}
