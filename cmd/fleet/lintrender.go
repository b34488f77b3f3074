package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// recentKubernetes is what charts see where nobody says otherwise.
const recentKubernetes = "v1.36.0"

func newEmptySelector() *metav1.LabelSelector { return &metav1.LabelSelector{} }

// A trial renders one bundle for all sample clusters that get it.
type trial struct {
	o        *lintOptions
	result   bundle.Result
	file     fleetyaml.File
	clusters []lintCluster

	tried    []lint.Sample
	rendered map[string][]finding.Finding // by deployment id and version of Kubernetes
	order    []finding.Finding
	failing  map[finding.Finding][]lint.Sample
}

// run is what goes wrong for any of the clusters, each thing once.
func (t *trial) run(ctx context.Context) []finding.Finding {
	b := t.result.Bundle
	manifest := content.Manifest{Resources: b.Spec.Resources}
	kit, err := deployment.NewKit(b, content.ID(manifest), nil)
	if err != nil {
		return []finding.Finding{t.at("render: " + err.Error())}
	}
	t.rendered, t.failing = map[string][]finding.Finding{}, map[finding.Finding][]lint.Sample{}
	refusal := ""
	for _, c := range t.clusters {
		if ctx.Err() != nil {
			return nil
		}
		place := placeOf(c)
		verdict := kit.Match(&place.Cluster)
		if !verdict.Deploy {
			refusal = verdict.Reason
			continue
		}
		t.tried = append(t.tried, c.Sample)
		version, err := kit.Work(verdict, place)
		if err != nil {
			t.note(t.guessed(c, lint.ValuesError(&t.file, err)), c.Sample)
			continue
		}
		for _, f := range t.render(c, manifest, version) {
			t.note(f, c.Sample)
		}
	}
	if len(t.tried) == 0 && t.o.clusterFile != "" {
		f := t.at(fmt.Sprintf("none of the clusters in %s gets the bundle: %s", shownFile(t.o.clusterFile), refusal))
		f.Severity, f.Rule = finding.Warning, finding.RuleUnreachable
		if line, column := t.file.At("overrideTargets"); line > 0 {
			f.Path, f.Line, f.Column = t.file.Path, line, column
		}
		return []finding.Finding{f}
	}
	return t.findings()
}

// placeOf is a sample as deployments see clusters.
func placeOf(c lintCluster) *deployment.Place {
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

// note remembers that something goes wrong for a cluster.
func (t *trial) note(f finding.Finding, s lint.Sample) {
	if _, known := t.failing[f]; !known {
		t.order = append(t.order, f)
	}
	t.failing[f] = append(t.failing[f], s)
}

// findings are what was noted, with the clusters that it is about.
func (t *trial) findings() []finding.Finding {
	var list []finding.Finding
	for _, f := range t.order {
		if f.Severity == finding.Warning {
			certain := f
			certain.Severity = finding.Error
			if len(t.failing[certain]) > 0 {
				continue // it is an error for another cluster
			}
		}
		which := lint.Which(t.failing[f], t.tried)
		if f.Hint == "" {
			f.Hint = which
		} else {
			f.Hint = which + "; " + f.Hint
		}
		list = append(list, f)
	}
	return list
}

// guessed makes a finding a warning where it may be for want of something that
// only the real cluster has.
func (t *trial) guessed(c lintCluster, f finding.Finding) finding.Finding {
	if c.Guessed && lint.AsksClusters(t.result.Bundle) {
		f.Severity = finding.Warning
		f.Hint = "the templates ask for what only a real cluster has; say which there are with --cluster-file"
	}
	return f
}

// render renders one version, once for all clusters that it is the same for.
func (t *trial) render(c lintCluster, m content.Manifest, v deployment.Version) []finding.Finding {
	kube := or(or(t.o.kubeVersion, c.kubeVersion), recentKubernetes)
	key := v.ID + " " + kube + fmt.Sprint(c.Guessed)
	if list, done := t.rendered[key]; done {
		return list
	}
	t.rendered[key] = t.renderOnce(c, m, v, kube)
	return t.rendered[key]
}

func (t *trial) renderOnce(c lintCluster, m content.Manifest, v deployment.Version, kube string) []finding.Finding {
	b := t.result.Bundle
	d := helm.Deployment{Content: m, Memory: release.Memory{Owner: release.Owner{BundleID: b.Name}}}
	var err error
	if d.Options, err = withValues(v); err != nil {
		return []finding.Finding{t.at("render: " + err.Error())}
	}
	d.ID = helm.IDOf(b.Name, d.Options)
	r, err := helm.Render(d, helm.RenderOptions{KubeVersion: kube})
	switch {
	case err == nil && strings.TrimSpace(r.All()) == "":
		f := t.at("nothing is rendered: no object is left to deploy")
		f.Severity, f.Rule = finding.Warning, finding.RuleEmpty
		return []finding.Finding{f}
	case err == nil, fault.ReasonOf(err) == release.ReasonNotImplemented: // said already
		return nil
	}
	f := t.guessed(c, t.locate(d, err))
	switch {
	case fault.ReasonOf(err) == release.ReasonIncompatible && t.o.kubeVersion == "" && c.kubeVersion == "":
		f.Severity, f.Hint = finding.Warning, "say which version it is for with --kube-version"
	case d.Options.Helm != nil && len(d.Options.Helm.ValuesFrom) > 0:
		f.Severity, f.Hint = finding.Warning, "the values of helm.valuesFrom are on the clusters, and missing here"
	}
	return []finding.Finding{f}
}

// locate is what to say of an error of Render.
func (t *trial) locate(d helm.Deployment, err error) finding.Finding {
	place, ok := helm.Locate(d, err)
	if !ok {
		return t.at("render: " + strings.TrimPrefix(err.Error(), "helm: "))
	}
	if strings.HasPrefix(place.File, ".chart/") {
		f := t.at("")
		if line, column := t.file.At("helm", "chart"); line > 0 {
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

// at is an error about the bundle as a whole: at the values in its fleet.yaml,
// or its directory where it has none.
func (t *trial) at(message string) finding.Finding {
	f := finding.Finding{Path: t.file.Path, Severity: finding.Error, Rule: finding.RuleRender, Message: message}
	if f.Line, f.Column = t.file.At("helm"); f.Line == 0 {
		f.Path = t.result.Dir.Path
	}
	return f
}
