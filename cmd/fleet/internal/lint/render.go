package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// A renderTrial renders one bundle for all sample clusters that get it.
type renderTrial struct {
	o        *Options
	result   bundle.Result
	file     fleetyaml.File
	origins  *lint.Origins
	clusters []sampleCluster

	tried       []lint.Sample
	rendered    map[string][]finding.Finding // by deployment id and version of Kubernetes
	order       []finding.Finding
	failing     map[finding.Finding][]lint.Sample
	objects     map[string][]schema.Rendered // by version of Kubernetes; filled by render
	heldObjects map[string]heldObjects       // by key of a version; filled by render
	versions    map[string]string            // the key of the version of each cluster, by its title

	unlabelled []string                 // clusters for which templates of values are not rendered
	dependence *lint.Dependence         // filled by noteDependence
	dependent  map[finding.Finding]bool // filled by noteDependence
}

// renderAll is what goes wrong for any of the clusters, each thing once.
func (t *renderTrial) renderAll(ctx context.Context) []finding.Finding {
	b := t.result.Bundle
	manifest := content.Manifest{Resources: b.Spec.Resources}
	t.objects = map[string][]schema.Rendered{}
	compiled, err := deployment.Compile(b, content.ID(manifest), nil)
	if err != nil {
		return []finding.Finding{t.findingAt("render: " + err.Error())}
	}
	t.rendered, t.failing = map[string][]finding.Finding{}, map[finding.Finding][]lint.Sample{}
	t.heldObjects, t.versions = map[string]heldObjects{}, map[string]string{}
	refusal := ""
	for _, c := range t.clusters {
		if ctx.Err() != nil {
			return nil
		}
		place := placeOf(c)
		verdict := compiled.Match(&place.Cluster)
		if !verdict.Deploy {
			refusal = cmp.Or(refusal, verdict.Reason)
			continue
		}
		t.tried = append(t.tried, c.Sample)
		version, err := compiled.Render(verdict, place)
		if err != nil {
			f := t.origins.ValuesError(err, verdict.Customizations)
			if f.Hint == "" { // else no cluster has what the template names
				f = t.asGuess(c, f)
			}
			t.recordFailure(f, c.Sample)
			continue
		}
		t.noteUnlabelled(c, version)
		for _, f := range t.render(c, manifest, version, verdict.Customizations) {
			t.recordFailure(f, c.Sample)
		}
	}
	if len(t.tried) == 0 && t.o.clusterFile != "" {
		f := t.findingAt(fmt.Sprintf("none of the clusters in %s gets the bundle: %s", cli.ShownFile(t.o.clusterFile), refusal))
		f.Severity, f.Rule = finding.Warning, finding.RuleUnreachable
		if line, column := t.file.Position("overrideTargets"); line > 0 {
			f.Path, f.Line, f.Column = t.file.Path, line, column
		}
		return []finding.Finding{f}
	}
	return slices.Concat(t.findings(), t.unrendered(), t.selection())
}

// selection returns findings about customizations and targets that select none of the
// clusters of --cluster-file, about partitions that select none of the clusters that
// get the bundle, and about labels that these lack.
func (t *renderTrial) selection() []finding.Finding {
	if t.o.clusterFile == "" {
		return nil
	}
	var all []*plantarget.Cluster
	for _, c := range t.clusters {
		all = append(all, &placeOf(c).Cluster)
	}
	var clusters []*plantarget.Cluster
	var labels []map[string]string
	for _, s := range t.tried {
		clusters = append(clusters, &placeOf(sampleCluster{Sample: s}).Cluster)
		labels = append(labels, s.Facts.Labels)
	}
	where := cli.ShownFile(t.o.clusterFile)
	return slices.Concat(lint.UnmatchedTargets(&t.file, all, t.o.known), lint.Partitions(&t.file, clusters, where), lint.Labels(&t.file, labels, where))
}

// placeOf is a sample as deployments see clusters.
func placeOf(c sampleCluster) *deployment.Place {
	p := &deployment.Place{
		Cluster: plantarget.Cluster{
			Namespace: c.Facts.Namespace, Name: c.Facts.Name, Labels: c.Facts.Labels, Groups: c.Groups,
		},
		Annotations: c.Facts.Annotations, TemplateValues: c.Facts.TemplateValues,
		Namespace: naming.ClusterNamespace(c.Facts.Namespace, c.Facts.Name),
	}
	p.Seal()
	return p
}

// recordFailure remembers that something goes wrong for a cluster.
func (t *renderTrial) recordFailure(f finding.Finding, s lint.Sample) {
	if _, known := t.failing[f]; !known {
		t.order = append(t.order, f)
	}
	t.failing[f] = append(t.failing[f], s)
}

// findings are what was noted, with the clusters that it is about.
func (t *renderTrial) findings() []finding.Finding {
	var list []finding.Finding
	for _, f := range t.order {
		if f.Severity == finding.Warning && slices.ContainsFunc(t.order, func(other finding.Finding) bool { return isErrorForm(other, f) }) {
			continue // it is an error for another cluster
		}
		which := lint.DescribeFailing(t.affectedClusters(f), t.tried)
		f = t.restoreError(f)
		if f.Hint == "" {
			f.Hint = which
		} else {
			f.Hint = which + "; " + f.Hint
		}
		list = append(list, f)
	}
	return list
}

// affectedClusters are the clusters that an error is about: also those for which it was noted as
// a guess, where it depends on nothing that was made up for them.
func (t *renderTrial) affectedClusters(f finding.Finding) []lint.Sample {
	if f.Severity != finding.Error || !t.independent(f) {
		return t.failing[f]
	}
	guess := f
	guess.Severity, guess.Hint = finding.Warning, HintGuessed
	failing := slices.Concat(t.failing[f], t.failing[guess])
	return slices.DeleteFunc(slices.Clone(t.tried), func(s lint.Sample) bool {
		return !slices.ContainsFunc(failing, func(other lint.Sample) bool { return other.Title == s.Title })
	})
}

// isErrorForm reports whether a finding is another one as an error.
func isErrorForm(f, other finding.Finding) bool {
	f.Hint, other.Hint = "", ""
	other.Severity = finding.Error
	return f == other
}

// Why what is rendered here may differ from what real clusters get.
const (
	HintGuessed   = "the templates ask for what only a real cluster has; say which there are with --cluster-file"
	hintElsewhere = "the values of helm.valuesFrom are on the clusters, and missing here"
)

// asGuess makes a finding a warning where it may be for want of something that
// only the real cluster has.
func (t *renderTrial) asGuess(c sampleCluster, f finding.Finding) finding.Finding {
	if c.Guessed && lint.AsksClusters(t.result.Bundle) {
		f.Severity = finding.Warning
		f.Hint = HintGuessed
	}
	return f
}

// render renders one version, once for all clusters that it is the same for.
func (t *renderTrial) render(c sampleCluster, m content.Manifest, v deployment.Version, customizations []int) []finding.Finding {
	kube := t.kubeOf(c)
	key := v.ID + " " + kube + fmt.Sprint(c.Guessed)
	t.versions[c.Title] = key
	if list, done := t.rendered[key]; done {
		return list
	}
	t.rendered[key] = t.renderOnce(c, m, v, kube, key, customizations)
	return t.rendered[key]
}

// kubeOf is the version of Kubernetes that charts see on a cluster.
func (t *renderTrial) kubeOf(c sampleCluster) string {
	return cmp.Or(cmp.Or(t.o.kubeVersion, c.kubeVersion), sources.RecentKubernetes)
}

func (t *renderTrial) renderOnce(c sampleCluster, m content.Manifest, v deployment.Version, kube, key string, customizations []int) []finding.Finding {
	b := t.result.Bundle
	d := helm.Deployment{Content: m, Memory: release.Record{Owner: release.Owner{BundleID: b.Name}}}
	var err error
	if d.Options, err = sources.WithValues(v); err != nil {
		return []finding.Finding{t.findingAt("render: " + err.Error())}
	}
	d.ID = helm.IDOf(b.Name, d.Options)
	r, err := helm.Render(d, helm.RenderOptions{KubeVersion: kube, Patches: true})
	t.keepRendered(kube, d, r.Objects, t.uncertainReason(c, d))
	t.heldObjects[key] = heldBy(d, r.Objects, t.uncertainReason(c, d))
	switch {
	case err == nil:
		return t.undeployedFindings(d, r)
	case reconcile.ReasonOf(err) == release.ReasonNotImplemented: // said already
		return nil
	}
	var list []finding.Finding
	for _, v := range helm.Violations(d, err) {
		if f, ok := t.origins.Violation(customizations, v.Chart, v.Pointer, v.Text); ok {
			list = append(list, t.weakenFinding(c, d, err, f, func(on *lint.Dependence) bool { return on.Violation(v.Pointer, v.Text) }))
		}
	}
	if len(list) > 0 {
		return list
	}
	if place, ok := helm.BrokenSchema(d, err); ok {
		return []finding.Finding{t.findingAtPlace(place)} // for any cluster
	}
	f := t.locateError(d, err, customizations)
	if reconcile.ReasonOf(err) == release.ReasonDuplicateObject {
		f.Rule = finding.RuleDuplicate
	}
	if helm.Unparsed(err) {
		f.Rule = finding.RuleTemplate
		return []finding.Finding{f} // for any cluster
	}
	return []finding.Finding{t.weakenFinding(c, d, err, f, func(on *lint.Dependence) bool {
		place, ok := helm.Locate(d, err)
		return !ok || on.Line(place.File, place.Line, helm.AbsentTemplate(err))
	})}
}

// weakenFinding makes the finding about an error of Render a warning where a real cluster
// may have what is missing here. depends reports whether the values that the error is
// about may depend on the cluster.
func (t *renderTrial) weakenFinding(c sampleCluster, d helm.Deployment, err error, f finding.Finding, depends func(*lint.Dependence) bool) finding.Finding {
	if guessed := t.asGuess(c, f); guessed != f {
		t.noteDependence(c, d, f, depends)
		f = guessed
	}
	switch {
	case reconcile.ReasonOf(err) == release.ReasonIncompatible && t.o.kubeVersion == "" && c.kubeVersion == "":
		f.Severity, f.Hint = finding.Warning, "say which version it is for with --kube-version"
	case d.Options.Helm != nil && len(d.Options.Helm.ValuesFrom) > 0:
		f.Severity, f.Hint = finding.Warning, hintElsewhere
	}
	return f
}

// undeployedFindings is what was rendered without an error and will not be deployed.
func (t *renderTrial) undeployedFindings(d helm.Deployment, r helm.Rendered) []finding.Finding {
	var list []finding.Finding
	for _, name := range r.Skipped {
		f := t.locateError(d, fmt.Errorf("%s: a document that it renders has no kind, so it is not deployed", name), nil)
		f.Severity, f.Rule = finding.Warning, finding.RuleManifest
		list = append(list, f)
	}
	for _, p := range r.Unmatched {
		list = append(list, finding.Finding{
			Path: path.Join(t.result.Dir.Path, p.File), Line: p.Line, Column: p.Column,
			Severity: finding.Warning, Rule: finding.RuleUnmatched, Message: p.Text, Hint: p.Hint,
		})
	}
	said := slices.ContainsFunc(t.result.Findings, func(f finding.Finding) bool {
		return f.Rule == finding.RuleManifest || f.Rule == finding.RuleEmpty
	})
	if strings.TrimSpace(r.AllObjects()) == "" && len(list) == 0 && !said {
		f := t.findingAt(sources.NothingRendered)
		f.Severity, f.Rule = finding.Warning, finding.RuleEmpty
		list = append(list, f)
	}
	return list
}

// locateError is what to say of an error of Render for a cluster to which customizations apply.
func (t *renderTrial) locateError(d helm.Deployment, err error, customizations []int) finding.Finding {
	if f, ok := t.remote(err); ok {
		return f
	}
	place, ok := helm.Locate(d, err)
	if !ok {
		return t.findingAt("render: " + strings.TrimPrefix(err.Error(), "helm: "))
	}
	f := t.findingAtPlace(place)
	if len(place.Null) > 0 {
		if null, ok := t.origins.Place(true, customizations, place.Null...); ok {
			f.Message += fmt.Sprintf(" (%s:%d)", strings.TrimPrefix(null.Path, t.result.Dir.Path+"/"), null.Line)
		}
	}
	return f
}

// findingAtPlace is what to say of an error whose place in the files of the bundle is known.
func (t *renderTrial) findingAtPlace(place helm.Place) finding.Finding {
	if strings.HasPrefix(place.File, ".chart/") {
		f := t.findingAt("")
		if line, column := t.file.Position("helm", "chart"); line > 0 {
			f.Line, f.Column = line, column
		}
		_, file, _ := strings.Cut(strings.TrimPrefix(place.File, ".chart/"), "/")
		if place.Line > 0 {
			file = fmt.Sprintf("%s:%d", file, place.Line)
		}
		f.Message = fmt.Sprintf("render: %s of the chart: %s", file, place.Text)
		return f
	}
	return finding.Finding{
		Path: path.Join(t.result.Dir.Path, place.File), Line: place.Line, Column: place.Column,
		Severity: finding.Error, Rule: finding.RuleRender, Message: "render: " + place.Text,
	}
}

// remote is what reading the files found of the address for which a kustomization
// is refused, as an error.
func (t *renderTrial) remote(err error) (f finding.Finding, ok bool) {
	if !errors.Is(err, helm.ErrRemote) {
		return f, false
	}
	for _, f := range t.result.Findings {
		address, _, quoted := strings.Cut(strings.TrimPrefix(f.Message, `"`), `" `)
		if f.Rule == finding.RuleOutside && quoted && strings.Contains(err.Error(), strconv.Quote(address)) {
			f.Severity = finding.Error
			return f, true
		}
	}
	return f, false
}

// findingAt is an error about the bundle as a whole: at the values in its fleet.yaml,
// or its directory where it has none.
func (t *renderTrial) findingAt(message string) finding.Finding {
	f := finding.Finding{Path: t.file.Path, Severity: finding.Error, Rule: finding.RuleRender, Message: message}
	if f.Line, f.Column = t.file.Position("helm"); f.Line == 0 {
		f.Path = t.result.Dir.Path
	}
	return f
}
