package lint

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
	planvalues "github.com/fleetworkspace/fleet/pkg/plan/values"
)

// A sampleCluster is a cluster that bundles are tried with.
type sampleCluster struct {
	lint.Sample
	kubeVersion string // empty: unknown
}

// clusters are those of --cluster-file, or nil without it.
func (o *Options) clusters(std printer.Stdio) ([]sampleCluster, error) {
	if o.clusterFile == "" {
		return nil, nil
	}
	all, err := sources.ReadObjects(o.clusterFile, std)
	if err != nil {
		return nil, cli.OfFlag("cluster-file", err)
	}
	if len(all.Clusters) == 0 {
		return nil, fmt.Errorf("no Cluster in %s", cli.ShownFile(o.clusterFile))
	}
	o.known = sources.KnownOf(cli.ShownFile(o.clusterFile), all.Clusters, all.Groups)
	workspaces := map[string][]*fleet.ClusterGroup{}
	for _, c := range all.Clusters {
		workspaces[c.Namespace] = nil
	}
	for _, g := range all.Groups {
		workspaces[g.Namespace] = append(workspaces[g.Namespace], g)
	}
	groups := map[string]plantarget.Groups{}
	for workspace, list := range workspaces {
		compiled, errs := plantarget.CompileGroups(list)
		for _, err := range errs {
			std.Note("warning: %v", err)
		}
		groups[workspace] = compiled
	}
	var out []sampleCluster
	for _, c := range all.Clusters {
		out = append(out, o.cluster(c, groups[c.Namespace], len(workspaces) > 1))
	}
	return out, nil
}

func (o *Options) cluster(c *fleet.Cluster, groups plantarget.Groups, withWorkspace bool) sampleCluster {
	out := sampleCluster{kubeVersion: c.Status.Agent.Kubernetes}
	out.Title = c.Name
	if withWorkspace {
		out.Title = c.Namespace + "/" + c.Name
	}
	out.Facts = planvalues.ClusterFacts{Name: c.Name, Namespace: cmp.Or(c.Namespace, lint.Workspace), Labels: c.Labels, Annotations: c.Annotations}
	if v := c.Spec.TemplateValues; v != nil {
		out.Facts.TemplateValues = v.Data
	}
	out.Groups = groups.Selecting(c.Labels)
	return out
}

// repository is what bundles are called after here.
const repository = "lint"

// everywhere is the target of a repository without targets.
var everywhere = fleet.GitTarget{Name: repository, ClusterSelector: sources.NewEmptySelector()}

// lint reads and tries the bundles of one tree, and notes their objects.
func (o *Options) lint(ctx context.Context, p sourceTree, clusters []sampleCluster, objects *treeObjects, report *report) error {
	access, err := o.helm.Access()
	if err != nil {
		return err
	}
	in := bundlesource.Input{Access: access, Options: bundle.Options{
		Repo: repository, Namespace: lint.Workspace, ImageScans: true, ServiceAccount: o.account,
		Targets:      []fleet.BundleTarget{bundle.TargetOf(everywhere)},
		Restrictions: []fleet.BundleTargetRestriction{bundle.RestrictionOf(everywhere)},
	}}
	for _, dir := range p.dirs {
		in.Paths = append(in.Paths, literalPattern(dir))
	}
	set, err := sources.ReadTree(ctx, p.root, in, bundlesource.Config{Offline: o.offline})
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
			clusters = append(clusters, sampleCluster{Sample: s})
		}
	}
	var members []lint.Member
	for _, r := range set.Results {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Dir.Bare && r.Bundle == nil && !r.Broken() {
			continue
		}
		dir := path.Join(p.shown, r.Dir.Path)
		report.bundles = append(report.bundles, dir)
		report.addFindings(p, dir, ofReading(r))
		report.addFindings(p, dir, lint.Check(tree, r))
		file := lint.Options(tree, r.Dir)
		report.addFindings(p, dir, lint.Unknown(&file, o.known))
		members = append(members, p.newMember(r.Dir, file))
		if r.Bundle != nil {
			t := renderTrial{o: o, result: r, file: file, origins: lint.NewOrigins(tree, r.Dir.Path, &file), clusters: clusters}
			report.addFindings(p, dir, t.renderAll(ctx))
			objects.addBundle(&t, dir)
		}
	}
	if len(members) == 0 {
		report.addNoBundle(p, tree)
		return nil
	}
	report.addSharedFindings(p, members, lint.Dependencies(members))
	report.addFindings(p, "", set.Findings)
	return nil
}

// ofReading are the findings of reading a bundle as they count here. Two objects in one
// document are an error: of one nothing is deployed.
func ofReading(r bundle.Result) []finding.Finding {
	list := slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return r.Empty && f.Rule == finding.RuleEmpty // lint.Check says more
	})
	for i := range list {
		if list[i].Rule == finding.RuleJoined {
			list[i].Severity = finding.Error
		}
	}
	return list
}

// addNoBundle reports that directories hold no bundle at all.
func (r *report) addNoBundle(p sourceTree, tree fs.FS) {
	for _, dir := range p.dirs {
		hint := "a repository that yields nothing is refused, not pruned"
		if alone, err := fs.Glob(tree, path.Join(dir, "*.json")); err == nil && len(alone) > 0 {
			hint = path.Base(alone[0]) + " alone makes no bundle: put a fleet.yaml beside it, which may be empty"
		}
		r.addFindings(p, "", []finding.Finding{{
			Path: dir, Severity: finding.Error, Rule: finding.RuleEmpty,
			Message: "nothing to deploy: no YAML, chart or kustomization here or below",
			Hint:    hint,
		}})
	}
}

// addFindings takes in findings of a tree.
func (r *report) addFindings(p sourceTree, bundle string, list []finding.Finding) {
	for _, f := range list {
		f.Path = path.Join(p.shown, f.Path)
		r.list = append(r.list, bundleFinding{Finding: f, bundle: bundle})
	}
}

// newMember returns a bundle among others, whose findings have paths as users see them.
func (s sourceTree) newMember(dir bundle.Dir, file fleetyaml.File) lint.Member {
	file.Path = path.Join(s.shown, file.Path)
	return lint.Member{Dir: dir, File: &file}
}

// addSharedFindings takes in findings about several of the bundles of a tree, each for the
// bundle in whose fleet.yaml it is.
func (r *report) addSharedFindings(p sourceTree, members []lint.Member, list []finding.Finding) {
	for _, f := range list {
		one := bundleFinding{Finding: f}
		for _, m := range members {
			if m.File.Path == f.Path {
				one.bundle = path.Join(p.shown, m.Dir.Path)
			}
		}
		r.list = append(r.list, one)
	}
}

// literalPattern is a path as a pattern that matches nothing else.
func literalPattern(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}
