package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

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
	queries []query // of what the answer depends on
}

// report prints an answer; with -w only one that differs from the last, below the time.
func (o explainOptions) report(r *reading, a answer) error {
	if o.changes == nil {
		r.note()
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
		r.note()
		o.changes.queries = a.queries(r.hidden)
	} else if !o.output.Machine() {
		printer.Say(r.s.std.Out, "\n%s\n", view.Clock(r.s.now(), r.s.now()))
	}
	return a.print()
}

// queries select what the answer depends on, as far as the user may see it.
func (a answer) queries(hidden []explain.Hidden) []query {
	b := a.bundle
	named := func(kind, namespace, name string) query {
		q := query{resource: mustKind(kind).resource(), namespace: namespace}
		if name != "" {
			q.fields = nameField(name)
		}
		return q
	}
	qs := []query{named("bundles", b.Namespace, b.Name)}
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		qs = append(qs, named("repos", b.Namespace, name))
	}
	space, deployments := b.Namespace, query{resource: mustKind("deployments").resource(), labels: bundleLabels(b)}
	if a.at.Key.Name != "" {
		space = a.at.Key.Namespace
		deployments.labels += "," + fleet.LabelCluster + "=" + a.at.Key.Name
	}
	if c := a.at.Cluster; c != nil && c.Status.Namespace != "" {
		deployments = named("deployments", c.Status.Namespace, b.Name)
	}
	name := a.at.Key.Name
	if a.at.Cluster != nil {
		name = a.at.Cluster.Name
	}
	return slices.DeleteFunc(append(qs, named("clusters", space, name), deployments), func(q query) bool {
		return slices.ContainsFunc(hidden, func(h explain.Hidden) bool {
			return h.Resource == q.resource.Resource && (h.Namespace == "" || h.Namespace == q.namespace)
		})
	})
}

// nameField selects the object of a name.
func nameField(name string) string {
	return fields.OneTermEqualSelector("metadata.name", name).String()
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

// watchExplain prints the answer, and then each new one until ctx ends.
func watchExplain(ctx context.Context, o explainOptions, s *session) error {
	o.changes = &explainChanges{}
	if err := runExplain(ctx, o, s); err != nil && !errors.As(err, new(reported)) {
		return err
	}
	return s.refresh(ctx, o.changes.queries, func(ctx context.Context) error { return runExplain(ctx, o, s) })
}
