// Package bundle makes Bundles of a tree of files: Discover finds the directories that
// are bundles, Assemble reads one of them, Read does both for a whole repository. The
// result equals rancher/fleet's, except where this package reports what
// rancher/fleet ignores.
//
// The package renders nothing: the agent renders charts and kustomizations. It
// downloads nothing: a Result says what is missing, and the caller downloads it and
// calls Assemble again. Package bundlesource does so.
package bundle

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// compressAt is the size of a Bundle's JSON, in bytes, from which on all its
// resources are stored compressed.
const compressAt = 1_000_000

// Limits bound what one bundle may hold. A zero field has the default.
type Limits struct {
	Files       int   // and as many directories; 10,000
	FileBytes   int64 // one file; 64 MiB
	TotalBytes  int64 // all files; 128 MiB
	Depth       int   // nested directories; 64
	StoredBytes int   // all files as they are stored, compressed if they are many; 32 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = 10_000
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 64 << 20
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = 128 << 20
	}
	if l.Depth <= 0 {
		l.Depth = 64
	}
	if l.StoredBytes <= 0 {
		l.StoredBytes = 32 << 20
	}
	return l
}

// Options are the settings of the GitRepo, or of the command line, for all its bundles.
// The tree does not contain them.
type Options struct {
	Repo      string // name of the GitRepo: the first part of bundle names
	Namespace string
	// Labels of every bundle. Those of fleet.yaml go before them.
	Labels map[string]string
	// Targets and Restrictions come after the customizations of fleet.yaml,
	// unless that overrides them.
	Targets      []fleet.BundleTarget
	Restrictions []fleet.BundleTargetRestriction
	// Forced on the bundle and on each of its targets; other accounts in fleet.yaml
	// are findings.
	TargetNamespace string
	ServiceAccount  string
	SyncGeneration  int64
	// Switched on where set; off leaves it to fleet.yaml.
	Paused, KeepResources, DeleteNamespace bool
	// CorrectDrift replaces that of fleet.yaml if it is enabled.
	CorrectDrift *fleet.CorrectDrift
	// Compress stores all resources compressed, whatever their size.
	Compress bool
	// ImageScans reports that image scanning is on. Where it is not, a fleet.yaml
	// with imageScans is refused.
	ImageScans bool
	// Fetched has the charts that were fetched so far for requests in Missing
	// of earlier Results.
	Fetched map[chart.Request]chart.Fetched `json:"-"`
	Limits  Limits
}

// A Dir is a directory that is a bundle.
type Dir struct {
	Path string // relative to the root, "." for the root itself
	// Options is the file in the format of fleet.yaml, relative to Path; empty
	// for fleet.yaml or fleet.yml.
	Options string
	// Bare says that a GitRepo names the directory and there is no bundle in it.
	Bare bool
}

// A Result is what a Dir gives.
type Result struct {
	Dir Dir
	// Name of the bundle; empty if its fleet.yaml could not be read, so the name is
	// unknown.
	Name string
	// NameAt is the place of the name in fleet.yaml, and nothing else; without a Path
	// where fleet.yaml gives none.
	NameAt finding.Finding
	// Bundle is nil if there is an Error among the findings, and if the
	// directory holds nothing to deploy.
	Bundle   *fleet.Bundle
	Findings []finding.Finding
	// Missing are charts that are not in the tree and not in Options.Fetched. As
	// long as there are any, the result is neither broken nor finished: they have
	// to be fetched, and the directory assembled again.
	Missing []chart.Request
	// Retry reports that an Error among the findings may pass by itself.
	Retry bool
	// Empty reports that the directory exists, and nothing in it is to be deployed.
	// If there was a bundle, it must stay as it was; EmptyFinding says so.
	Empty bool
	// Scans are the image scans that belong to Bundle.
	Scans []*fleet.ImageScan
	// Inputs describe the tree, the downloads and the options that the result
	// depends on.
	Inputs Inputs
}

// EmptyFinding returns what to say of an Empty result where there was a bundle before.
func (r Result) EmptyFinding() finding.Finding {
	if f, ok := r.IgnoredBy(); ok {
		f.Severity = finding.Error
		f.Message = fmt.Sprintf("the directory has become empty: %s; bundle %q stays as it was", strings.TrimPrefix(f.Message, nothingLeft), r.Name)
		return f
	}
	return finding.Finding{
		Path: r.Dir.Path, Severity: finding.Error, Rule: finding.RuleEmpty,
		Message: fmt.Sprintf("the directory has become empty; bundle %q stays as it was", r.Name),
		Hint:    "remove the directory to remove the bundle",
	}
}

// IgnoredBy returns the finding about a .fleetignore that leaves nothing to deploy; ok is
// false where none does.
func (r Result) IgnoredBy() (f finding.Finding, ok bool) {
	i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Rule == finding.RuleEmpty && path.Base(f.Path) == ignoreFile })
	if i < 0 {
		return f, false
	}
	return r.Findings[i], true
}

// Broken reports whether the directory should be a bundle and cannot be.
func (r Result) Broken() bool { return finding.HasErrors(r.Findings) }

// A Set is what a repository gives.
type Set struct {
	Results []Result // by path
	// Findings are those about paths, not about one bundle.
	Findings []finding.Finding
	// Absent are the paths that lead to no directory. Each has its warning in
	// Findings.
	Absent []Absent
}

// Empty reports whether the repository yields nothing at all, not even a broken
// bundle.
func (s Set) Empty() bool {
	return !slices.ContainsFunc(s.Results, func(r Result) bool { return r.Bundle != nil || r.Broken() })
}

// AllFindings returns all findings, by place.
func (s Set) AllFindings() []finding.Finding {
	all := slices.Clone(s.Findings)
	for _, r := range s.Results {
		all = append(all, r.Findings...)
	}
	finding.Sort(all)
	return all
}

// Read makes the bundles of a repository. If entries are given, they are the
// bundles; else bundles are looked for below paths.
func Read(root fs.FS, paths []string, entries []fleet.BundlePath, o Options) Set {
	var d Discovery
	dirs, found := d.Dirs(root, paths, entries)
	var results []Result
	for _, dir := range dirs {
		results = append(results, Assemble(root, dir, o))
	}
	set := NewSet(results, found)
	set.Absent = d.Absent()
	return set
}

// NewSet puts results together. Two directories with one bundle name are both
// broken in it; results are not changed.
func NewSet(results []Result, found []finding.Finding) Set {
	results = slices.Clone(results)
	refuseTwins(results)
	return Set{Results: results, Findings: found}
}

// refuseTwins breaks all results whose bundles would overwrite each other.
func refuseTwins(results []Result) {
	byName := map[string][]int{}
	for i, r := range results {
		if r.Name != "" && (r.Bundle != nil || r.Broken()) {
			byName[r.Name] = append(byName[r.Name], i)
		}
	}
	for name, twins := range byName {
		if len(twins) < 2 {
			continue
		}
		for _, i := range twins {
			var others []string
			for _, j := range twins {
				if i != j {
					others = append(others, results[j].Dir.Path)
				}
			}
			r := &results[i]
			r.Bundle, r.Scans = nil, nil
			f := r.NameAt
			f.Path = cmp.Or(f.Path, r.Dir.Path)
			f.Severity, f.Rule = finding.Error, finding.RuleName
			f.Message = fmt.Sprintf("bundle name %q is also that of %s", name, strings.Join(others, ", "))
			f.Hint = "set name in fleet.yaml of one of them"
			r.Findings = append(slices.Clone(r.Findings), f)
		}
	}
}

// isWithin reports whether a cleaned path is base or below it.
func isWithin(base, p string) bool {
	return base == "." && p != ".." && !strings.HasPrefix(p, "../") || p == base || strings.HasPrefix(p, base+"/")
}

// cleanPath makes a path of a user relative to the root; ok is false if it leads
// out.
func cleanPath(p string) (cleaned string, ok bool) {
	cleaned = path.Clean(strings.TrimLeft(p, "/"))
	return cleaned, fs.ValidPath(cleaned)
}
