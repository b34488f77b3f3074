package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// An answer is an explanation that was made.
type answer struct {
	bundle  *fleet.Bundle
	at      explain.Place // zero: all clusters
	changes any           // what makes it another answer: it holds no times of reading
	print   func() error
}

// explainChanges is what fleet explain -w has printed.
type explainChanges struct {
	shown   string
	queries []client.Query // of what the answer depends on
}

// report prints an answer; with -w only one that differs from the last, below the time.
func (o Options) report(r *client.ExplainReader, a answer) error {
	if o.changes == nil {
		r.PrintNotes()
		return a.print()
	}
	data, err := json.Marshal(a.changes)
	if err != nil {
		return fmt.Errorf("compare answers: %w", err)
	}
	first := o.changes.shown == ""
	if string(data) == o.changes.shown {
		return nil
	}
	o.changes.shown = string(data)
	if first {
		r.PrintNotes()
		o.changes.queries = a.watchQueries(r.Hidden)
	} else if !o.Output.IsMachineReadable() {
		printer.Fprintf(r.S.Std.Out, "\n%s\n", view.Clock(r.S.Now(), r.S.Now()))
	}
	return a.print()
}

// watchQueries select what the answer depends on, as far as the user may see it.
func (a answer) watchQueries(hidden []explain.Hidden) []client.Query {
	b := a.bundle
	named := func(kind, namespace, name string) client.Query {
		q := client.Query{Resource: cli.MustKind(kind).Resource(), Namespace: namespace}
		if name != "" {
			q.Fields = client.NameField(name)
		}
		return q
	}
	qs := []client.Query{named("bundles", b.Namespace, b.Name)}
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		qs = append(qs, named("repos", b.Namespace, name))
	}
	if name := b.Labels[fleet.LabelHelmOpName]; name != "" {
		qs = append(qs, named("helmops", b.Namespace, name))
	}
	space, deployments := b.Namespace, client.Query{Resource: cli.MustKind("deployments").Resource(), Labels: bundleLabels(b)}
	if a.at.Key.Name != "" {
		space = a.at.Key.Namespace
		deployments.Labels += "," + fleet.LabelCluster + "=" + a.at.Key.Name
	}
	if c := a.at.Cluster; c != nil && c.Status.Namespace != "" {
		deployments = named("deployments", c.Status.Namespace, b.Name)
	}
	name := a.at.Key.Name
	if a.at.Cluster != nil {
		name = a.at.Cluster.Name
	}
	return slices.DeleteFunc(append(qs, named("clusters", space, name), deployments), func(q client.Query) bool {
		return slices.ContainsFunc(hidden, func(h explain.Hidden) bool {
			return h.Resource == q.Resource.Resource && (h.Namespace == "" || h.Namespace == q.Namespace)
		})
	})
}

// changesOf is an explanation without what changes while its answer stays: the evidence
// holds times at which something was read.
func changesOf(e explain.Explanation) Explanation {
	doc := explanation(e)
	for i := range doc.Chain {
		doc.Chain[i].Evidence = nil
	}
	return doc
}

// Watch prints the answer, and then each new one until ctx ends.
func Watch(ctx context.Context, o Options, s *client.Session) error {
	o.changes = &explainChanges{}
	if err := Run(ctx, o, s); err != nil && !errors.As(err, new(cli.Reported)) {
		return err
	}
	return s.Refresh(ctx, o.changes.queries, func(ctx context.Context) error { return Run(ctx, o, s) })
}
