package lint

import (
	"fmt"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	planvalues "github.com/fleetworkspace/fleet/pkg/plan/values"
)

// fillings are the replacements of values that depend on the cluster, to see whether
// the chart renders with any of them.
var fillings = []any{nil, false, true, "other"}

// noteDependence notes whether a failure for a made-up cluster may depend on what a real
// one has: reads says so of the values, or the chart renders with other values from the
// cluster.
func (t *renderTrial) noteDependence(c sampleCluster, d helm.Deployment, f finding.Finding, reads func(*lint.Dependence) bool) {
	if t.dependence == nil {
		t.dependence, t.dependent = lint.DependenceOf(t.result.Bundle), map[finding.Finding]bool{}
	}
	t.dependent[f] = t.dependent[f] || reads(t.dependence) || t.rendersWith(c, d)
}

// restoreError makes a finding that was noted as a guess an error again, where it is about every
// cluster and depends on none.
func (t *renderTrial) restoreError(f finding.Finding) finding.Finding {
	if f.Severity != finding.Warning || f.Hint != HintGuessed || len(t.failing[f]) != len(t.tried) {
		return f
	}
	failure := f
	failure.Severity, failure.Hint = finding.Error, ""
	if !t.independent(failure) {
		return f
	}
	return failure
}

// independent reports whether it is known that a failure does not depend on the cluster.
func (t *renderTrial) independent(failure finding.Finding) bool {
	depends, known := t.dependent[failure]
	return known && !depends
}

// rendersWith reports whether the chart renders where other values come from the cluster.
func (t *renderTrial) rendersWith(c sampleCluster, d helm.Deployment) bool {
	if d.Options.Helm == nil || d.Options.Helm.Values == nil {
		return false
	}
	options := *d.Options.Helm
	d.Options.Helm = &options
	for _, v := range fillings {
		filled := t.dependence.Fill(options.Values.Data, v)
		options.Values = &fleet.GenericMap{Data: filled}
		if _, err := helm.Render(d, helm.RenderOptions{KubeVersion: t.kubeOf(c), Patches: true}); err == nil {
			return true
		}
	}
	return false
}

// noteUnlabelled remembers a cluster for which templates of values are not rendered.
func (t *renderTrial) noteUnlabelled(c sampleCluster, v deployment.Version) {
	if planvalues.Renders(c.Facts.Labels) {
		return // most clusters: their values need not be merged for this
	}
	if options, err := sources.WithValues(v); err == nil && planvalues.Templated(options.Helm) {
		t.unlabelled = append(t.unlabelled, c.Title)
	}
}

// unrendered warns of clusters for which templates of values are not rendered, at the
// first template of fleet.yaml.
func (t *renderTrial) unrendered() []finding.Finding {
	if len(t.unlabelled) == 0 {
		return nil
	}
	f := t.findingAt("templates of values are not rendered for a cluster without labels: the value is the text of the template")
	f.Severity, f.Hint = finding.Warning, fmt.Sprintf("%d of %d clusters, such as %s; with any label they are rendered", len(t.unlabelled), len(t.tried), t.unlabelled[0])
	if line, column := lint.FirstTemplate(&t.file); line > 0 {
		f.Path, f.Line, f.Column = t.file.Path, line, column
	}
	return []finding.Finding{f}
}
