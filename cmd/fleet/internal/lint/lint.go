package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// Formats of fleet lint besides those of other commands.
const (
	formatSARIF  = "sarif"
	formatGitHub = "github"
)

// Options are the flags of fleet lint.
type Options struct {
	Dirs        []string
	strict      bool
	List        bool // of the rules
	Schema      bool // of fleet.yaml
	rules       []string
	off         map[string]bool
	known       lint.Known // of clusterFile
	clusterFile string
	account     string // that the GitRepo says
	kubeVersion string
	crdFile     string
	server      bool             // whose CRDs are known
	served      []map[string]any // CRDs of the server
	offline     bool
	output      printer.Output
	helm        sources.HelmAccess
}

// AddFlags adds the flags of the command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.strict, "strict", false, "warnings are errors")
	fs.StringArrayVar(&o.rules, "rule", nil, "switch a rule off: `-NAME`; may be repeated")
	fs.BoolVar(&o.List, "rules", false, "list the rules, and do nothing else")
	fs.BoolVar(&o.Schema, "schema", false, "print the JSON schema of fleet.yaml for editors, and do nothing else")
	fs.StringVar(&o.clusterFile, "cluster-file", "", "`file` with Clusters, and ClusterGroups, to render for; - is stdin; default: made-up ones")
	fs.StringVar(&o.account, "service-account", "", "`account` that the GitRepo names: its serviceAccount")
	fs.StringVar(&o.kubeVersion, "kube-version", "", "`version` of Kubernetes that charts see, and whose kinds there are; default: that of the Cluster in --cluster-file, else a recent one")
	fs.StringVar(&o.crdFile, "crd-file", "", "`file` with CRDs that clusters have, as \"kubectl get crds -o yaml\" prints them; - is stdin")
	fs.BoolVar(&o.server, "server", false, "CRDs and version of Kubernetes are also those of the cluster of the kubeconfig")
	fs.BoolVar(&o.offline, "offline", false, "download nothing: a chart that is not here is an error")
	o.output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML, formatSARIF, formatGitHub)
	o.helm.AddFlags(fs)
}

// Complete takes from the environment what no flag says, and refuses what is not possible.
func (o *Options) Complete(env func(string) string) error {
	if err := o.output.Check(printer.FormatJSON, printer.FormatYAML, formatSARIF, formatGitHub); err != nil {
		return err
	}
	if err := cli.CheckKubeVersion(o.kubeVersion); err != nil {
		return err
	}
	if err := sources.CheckAccount(o.account); err != nil {
		return err
	}
	if len(o.Dirs) == 0 {
		o.Dirs = []string{"."}
	}
	o.off = map[string]bool{}
	for _, rule := range o.rules {
		name, off := strings.CutPrefix(rule, "-")
		if _, ok := lint.RuleOf(name); !ok {
			return unknownRule(name)
		}
		if !off {
			return fmt.Errorf("--rule %s: all rules are on; --rule -%s switches one off", name, name)
		}
		o.off[name] = true
	}
	return o.helm.Complete(env)
}

func unknownRule(name string) error {
	var names []string
	for _, r := range lint.Rules() {
		names = append(names, r.Name)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("no rule %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("no rule %q; fleet lint --rules lists them", name)
}

// PrintRules prints the rules of fleet lint, with what each finds.
func PrintRules(std printer.Stdio) error {
	for _, r := range lint.Rules() {
		if _, err := fmt.Fprintf(std.Out, "%-16s %-8s %s\n", r.Name, r.Severity, r.Text); err != nil {
			return err
		}
	}
	return nil
}

// Run prints what is wrong in the directories.
func Run(ctx context.Context, o Options, std printer.Stdio) error {
	places, err := placesOf(o.Dirs)
	if err != nil {
		return err
	}
	clusters, err := o.clusters(std)
	if err != nil {
		return err
	}
	crds, err := o.readCRDs(std)
	if err != nil {
		return err
	}
	if o.helm.Unsent() {
		std.Note("note: the credentials for charts are sent nowhere without --helm-repo-url-regex")
	}
	var report report
	for _, p := range places {
		objects := treeObjects{crds: append(slices.Clone(o.served), crds...)}
		if err := o.lint(ctx, p, clusters, &objects, &report); err != nil {
			return err
		}
		objects.report(p, &report)
		objects.warnShared(p, &report)
		objects.services(p, &report)
		objects.references(p, &report)
		objects.comparePatches(p, &report)
	}
	o.finishReport(&report)
	if err := o.printReport(std, report); err != nil {
		return err
	}
	std.Note("%s", report.summary())
	if report.Errors > 0 {
		return cli.EndingWith(cli.ErrInput)
	}
	return nil
}

// finishReport drops what is switched off, orders the rest, and sets the summary.
func (o *Options) finishReport(r *report) {
	r.list = slices.DeleteFunc(r.list, func(f bundleFinding) bool { return o.off[f.Rule] })
	r.dropDuplicates()
	slices.SortStableFunc(r.list, func(a, b bundleFinding) int {
		return cmp.Or(finding.Compare(a.Finding, b.Finding), strings.Compare(string(a.Severity), string(b.Severity))) // errors first
	})
	r.list = slices.CompactFunc(r.list, func(a, b bundleFinding) bool {
		b.Severity = a.Severity // of an error and a warning with the same words the error stays
		return a.Finding == b.Finding
	})
	dirty := map[string]bool{}
	for i := range r.list {
		f := &r.list[i]
		if o.strict {
			f.Finding = finding.Strict([]finding.Finding{f.Finding})[0]
		}
		r.Count([]finding.Finding{f.Finding})
		dirty[f.bundle] = true
	}
	for _, b := range r.bundles {
		if r.Bundles++; !dirty[b] {
			r.Clean++
		}
	}
}

// dropDuplicates leaves one finding of each mistake: it drops a warning that repeats an error.
// Of a template that is not rendered it keeps only that finding, as an error if the
// object is refused for it.
func (r *report) dropDuplicates() {
	type line struct {
		path string
		line int
	}
	templates, refused := map[line]bool{}, map[line]bool{}
	errors := map[finding.Finding]bool{}
	same := func(f finding.Finding) finding.Finding {
		return finding.Finding{Path: f.Path, Line: f.Line, Rule: f.Rule, Message: f.Message}
	}
	for _, f := range r.list {
		switch at := (line{f.Path, f.Line}); {
		case f.Rule == finding.RuleNotRendered:
			templates[at] = true
		case f.Severity == finding.Error:
			refused[at] = true
			errors[same(f.Finding)] = true
		}
	}
	r.list = slices.DeleteFunc(r.list, func(f bundleFinding) bool {
		switch at := (line{f.Path, f.Line}); {
		case f.Rule == finding.RuleNotRendered:
			return false
		case f.Severity == finding.Error:
			return templates[at]
		}
		return errors[same(f.Finding)]
	})
	for i := range r.list {
		if f := &r.list[i].Finding; f.Rule == finding.RuleNotRendered && refused[line{f.Path, f.Line}] {
			f.Severity = finding.Error
		}
	}
}

// A bundleFinding is a finding with the bundle that it is about, both relative to
// the working directory.
type bundleFinding struct {
	finding.Finding
	bundle string // its directory; empty for a finding about none
}

// A report is all that was found.
type report struct {
	lint.Summary
	list    []bundleFinding
	bundles []string // directories
}

func (r report) summary() string {
	if len(r.list) == 0 {
		if r.Bundles == 1 {
			return "1 bundle: fine"
		}
		return printer.Plural(r.Bundles, "bundle") + ": all fine"
	}
	return fmt.Sprintf("%s: %d fine, %d with problems; %s, %s", printer.Plural(r.Bundles, "bundle"), r.Clean, r.Bundles-r.Clean,
		printer.Plural(r.Errors, "error"), printer.Plural(r.Warnings, "warning"))
}

// A sourceTree is a tree with directories in it that are read together.
type sourceTree struct {
	root string   // as it is opened
	dirs []string // in it, with slashes
	// shown is root relative to the working directory, for people.
	shown string
}

// placesOf sorts directories by the tree that they are read in: the checkout
// that they are in, so that what fleet.yaml names further up is found; without
// one the working directory, or the directory itself.
func placesOf(dirs []string) ([]sourceTree, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	var places []sourceTree
	for _, dir := range dirs {
		if err := lintable(dir); err != nil {
			return nil, err
		}
		full := dir
		if !filepath.IsAbs(full) {
			full = filepath.Join(here, full)
		}
		root := treeOf(filepath.Clean(full), here)
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(places, func(p sourceTree) bool { return p.root == root })
		if i < 0 {
			shown, err := filepath.Rel(here, root)
			if err != nil || filepath.IsAbs(dir) {
				shown = root
			}
			places = append(places, sourceTree{root: root, shown: filepath.ToSlash(shown)})
			i = len(places) - 1
		}
		places[i].dirs = append(places[i].dirs, filepath.ToSlash(rel))
	}
	return places, nil
}

// lintable is why a path cannot be read as a directory, and what to do.
func lintable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return absentDir(dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a file, and fleet lint reads whole directories: fleet lint %s", dir, filepath.Dir(dir))
	}
	return nil
}

// absentDir says that there is no such directory, with the similar one in the same
// directory that was probably meant.
func absentDir(dir string) error {
	parent, name := filepath.Split(filepath.Clean(dir))
	entries, err := os.ReadDir(cmp.Or(parent, "."))
	if err != nil {
		return fmt.Errorf("there is no directory %s, nor the one above it", dir)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no directory %s; did you mean %s?", dir, filepath.Join(parent, near))
	}
	return fmt.Errorf("there is no directory %s; give one that exists, or none for the working directory", dir)
}

// treeOf is the directory that dir is read in.
func treeOf(dir, here string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		} else if !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
	}
	if rel, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(rel) {
		return here
	}
	return dir
}
