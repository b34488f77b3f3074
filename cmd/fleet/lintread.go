package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/reader"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
	planvalues "github.com/fleetworkspace/fleet/pkg/plan/values"
)

// A lintCluster is a cluster that bundles are tried with.
type lintCluster struct {
	lint.Sample
	kubeVersion string // empty: nobody knows
}

// clusters are those of --cluster-file, or nil without it.
func (o *lintOptions) clusters(std stdio) ([]lintCluster, error) {
	if o.clusterFile == "" {
		return nil, nil
	}
	all, err := readObjects(o.clusterFile, std)
	if err != nil {
		return nil, err
	}
	if len(all.clusters) == 0 {
		return nil, fmt.Errorf("no Cluster in %s", shownFile(o.clusterFile))
	}
	workspaces := map[string][]*fleet.ClusterGroup{}
	for _, c := range all.clusters {
		workspaces[c.Namespace] = nil
	}
	for _, g := range all.groups {
		workspaces[g.Namespace] = append(workspaces[g.Namespace], g)
	}
	groups := map[string]plantarget.Groups{}
	for workspace, list := range workspaces {
		compiled, errs := plantarget.CompileGroups(list)
		for _, err := range errs {
			std.note("warning: %v", err)
		}
		groups[workspace] = compiled
	}
	var out []lintCluster
	for _, c := range all.clusters {
		out = append(out, o.cluster(c, groups[c.Namespace], len(workspaces) > 1))
	}
	return out, nil
}

func (o *lintOptions) cluster(c *fleet.Cluster, groups plantarget.Groups, withWorkspace bool) lintCluster {
	out := lintCluster{kubeVersion: c.Status.Agent.Kubernetes}
	out.Title = c.Name
	if withWorkspace {
		out.Title = c.Namespace + "/" + c.Name
	}
	out.Facts = planvalues.ClusterFacts{Name: c.Name, Namespace: or(c.Namespace, lint.Workspace), Labels: c.Labels, Annotations: c.Annotations}
	if v := c.Spec.TemplateValues; v != nil {
		out.Facts.TemplateValues = v.Data
	}
	out.Groups = groups.Of(c.Labels)
	return out
}

// repository is what bundles are called after here.
const repository = "lint"

// everywhere is where a repository goes that nobody has said anything about.
var everywhere = fleet.GitTarget{Name: repository, ClusterSelector: newEmptySelector()}

// lint reads and tries the bundles of one tree.
func (o *lintOptions) lint(ctx context.Context, p lintPlace, clusters []lintCluster, report *lintReport) error {
	access, err := o.helm.access()
	if err != nil {
		return err
	}
	in := reader.Input{Access: access, Options: bundle.Options{
		Repo: repository, Namespace: lint.Workspace, ImageScans: true,
		Targets:      []fleet.BundleTarget{bundle.TargetOf(everywhere)},
		Restrictions: []fleet.BundleTargetRestriction{bundle.RestrictionOf(everywhere)},
	}}
	for _, dir := range p.dirs {
		in.Paths = append(in.Paths, literal(dir))
	}
	set, err := readTree(ctx, p.root, in, reader.Config{Offline: o.offline})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.shown, err)
	}
	defer root.Close()
	tree := root.FS()
	if clusters == nil {
		for _, s := range lint.Samples(set) {
			clusters = append(clusters, lintCluster{Sample: s})
		}
	}
	some := false
	for _, r := range set.Results {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Dir.Bare && r.Bundle == nil && !r.Broken() {
			continue
		}
		some = true
		dir := path.Join(p.shown, r.Dir.Path)
		report.bundles = append(report.bundles, dir)
		report.add(p, dir, slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
			return r.Empty && f.Rule == finding.RuleEmpty // lint.Check says more
		}))
		report.add(p, dir, lint.Check(tree, r))
		if r.Bundle != nil {
			t := trial{o: o, result: r, file: lint.Options(tree, r.Dir), clusters: clusters}
			report.add(p, dir, t.run(ctx))
		}
	}
	if !some {
		report.nothing(p)
		return nil
	}
	report.add(p, "", set.Findings)
	return nil
}

// nothing tells that directories hold no bundle at all.
func (r *lintReport) nothing(p lintPlace) {
	for _, dir := range p.dirs {
		r.add(p, "", []finding.Finding{{
			Path: dir, Severity: finding.Error, Rule: finding.RuleEmpty,
			Message: "nothing to deploy: no YAML, chart or kustomization here or below",
			Hint:    "a repository that yields nothing is refused, not pruned",
		}})
	}
}

// add takes in findings of a tree.
func (r *lintReport) add(p lintPlace, bundle string, list []finding.Finding) {
	for _, f := range list {
		f.Path = path.Join(p.shown, f.Path)
		r.list = append(r.list, lintFinding{Finding: f, bundle: bundle})
	}
}

// literal is a path as a pattern that matches nothing else.
func literal(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}
