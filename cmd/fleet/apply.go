package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

const applyText = `Reads directories as a GitRepo of that name would, and prints the Bundles that they make. It needs no cluster and changes nothing.

What is wrong in a file is said on stderr, with its place; then nothing is printed, and the exit code is 4.
PATH is relative to the working directory and may be a shell pattern; default: the working directory.`

// applyOptions are the flags of fleet apply; they are the reference's.
type applyOptions struct {
	name  string
	paths []string

	output      string
	commit      string
	targetsFile string
	drivenScan  bool
	separator   string
	drift       fleet.CorrectDrift
	bundle      bundle.Options
}

func newApplyCommand(g *globals, std stdio) *cobra.Command {
	o := applyOptions{}
	cmd := &cobra.Command{
		Use: "apply -o FILE NAME [PATH...]", Short: "Print the Bundles that directories make", Long: applyText,
		Example: "  fleet apply -o - examples web settings\n  fleet apply -o bundles.json -n fleet-default --commit 3f9c2e1 examples",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			g.writing()
			o.name, o.paths, o.bundle.Namespace = args[0], args[1:], g.namespace
			return runApply(o, os.Getenv("COMMIT"), std)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *applyOptions) addFlags(fs *pflag.FlagSet) {
	b := &o.bundle
	fs.StringVarP(&o.output, "output", "o", "", "write to `file`; - is stdout as YAML, yaml and json are stdout too; a name ending in .json is JSON")
	fs.StringVar(&o.commit, "commit", "", "`commit` that the bundles are labelled with; default: COMMIT, or HEAD here")
	fs.StringToStringVarP(&b.Labels, "label", "l", nil, "labels of all bundles, `k=v,...`")
	fs.StringVar(&o.targetsFile, "targets-file", "", "YAML `file` with targets and targetRestrictions; default: cluster group default")
	fs.StringVar(&b.TargetNamespace, "target-namespace", "", "`namespace` forced on every object")
	fs.StringVarP(&b.ServiceAccount, "service-account", "a", "", "`account` that agents impersonate")
	fs.Int64Var(&b.SyncGeneration, "sync-generation", 0, "`number` that is raised to deploy the same again")
	fs.BoolVarP(&b.Compress, "compress", "c", false, "compress all files, whatever their size")
	fs.BoolVar(&b.Paused, "paused", false, "hold changes back")
	fs.BoolVar(&b.KeepResources, "keep-resources", false, "leave the objects when bundles are removed")
	fs.BoolVar(&b.DeleteNamespace, "delete-namespace", false, "delete the target namespace when the GitRepo is removed")
	fs.BoolVar(&o.drift.Enabled, "correct-drift", false, "put back what others change")
	fs.BoolVar(&o.drift.Force, "correct-drift-force", false, "replace what a patch cannot put back")
	fs.BoolVar(&o.drift.KeepFailHistory, "correct-drift-keep-fail-history", false, "keep the revision of a correction that failed")
	fs.BoolVar(&o.drivenScan, "driven-scan", false, "each PATH is one bundle: BASE or BASE:OPTIONSFILE")
	fs.StringVar(&o.separator, "driven-scan-sep", ":", "`text` between BASE and OPTIONSFILE")
}

// runApply reads the directories and prints their Bundles. environment is the
// commit that the environment names.
func runApply(o applyOptions, environment string, std stdio) error {
	if o.output == "" {
		return errors.New("writing to a cluster is not implemented yet: print the bundles with -o -")
	}
	if err := o.complete(environment); err != nil {
		return err
	}
	paths, entries, err := o.places()
	if err != nil {
		return err
	}
	here, err := os.OpenRoot(".")
	if err != nil {
		return fmt.Errorf("read the working directory: %w", err)
	}
	defer here.Close()
	set := bundle.Read(here.FS(), paths, entries, o.bundle)
	if err := tellFindings(std, set); err != nil {
		return err
	}
	var bundles []*fleet.Bundle
	for _, r := range set.Results {
		if r.Bundle != nil {
			bundles = append(bundles, r.Bundle)
		}
	}
	if len(bundles) == 0 {
		return fmt.Errorf("%w: nothing to deploy in %s", errInput, strings.Join(append([]string{}, paths...), ", "))
	}
	return o.print(std.out, bundles)
}

// complete fills in what comes from files and from around the command.
func (o *applyOptions) complete(environment string) error {
	o.bundle.Repo = o.name
	o.bundle.CorrectDrift = &o.drift
	if o.commit == "" {
		o.commit = environment
	}
	if o.commit == "" {
		head, err := git.Head(".")
		if err != nil && !errors.Is(err, git.ErrNoCheckout) {
			return err
		}
		o.commit = string(head.Commit)
	}
	if o.commit != "" {
		labels := map[string]string{fleet.LabelCommit: o.commit}
		for k, v := range o.bundle.Labels {
			labels[k] = v
		}
		o.bundle.Labels = labels
	}
	if o.targetsFile == "" {
		return nil
	}
	data, err := os.ReadFile(o.targetsFile)
	if err != nil {
		return fmt.Errorf("read targets: %w", err)
	}
	var spec fleet.BundleSpec
	if err := yaml.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("%w: %s: %w", errInput, o.targetsFile, err)
	}
	o.bundle.Targets, o.bundle.Restrictions = spec.Targets, spec.TargetRestrictions
	return nil
}

// places are the arguments as paths below the working directory, or as a list
// of bundles.
func (o *applyOptions) places() (paths []string, entries []fleet.BundlePath, err error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("find the working directory: %w", err)
	}
	for _, arg := range o.paths {
		options := ""
		if o.drivenScan && o.separator != "" {
			arg, options, _ = strings.Cut(arg, o.separator)
		}
		if rel, err := filepath.Rel(here, arg); filepath.IsAbs(arg) && err == nil {
			arg = rel
		}
		paths = append(paths, arg)
		entries = append(entries, fleet.BundlePath{Base: arg, Options: options})
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if !o.drivenScan {
		entries = nil
	}
	return paths, entries, nil
}

// tellFindings prints what was found, and fails if any of it is an error.
func tellFindings(std stdio, set bundle.Set) error {
	all := set.All()
	for _, f := range all {
		std.note("%s", f)
		if f.Hint != "" {
			std.note("    %s", f.Hint)
		}
	}
	n := len(finding.Errors(all))
	if n == 0 {
		return nil
	}
	noun := "errors"
	if n == 1 {
		noun = "error"
	}
	return fmt.Errorf("%w: %d %s, nothing is printed", errInput, n, noun)
}

// print writes the Bundles to where -o says: as YAML one document each, as JSON
// one list.
func (o *applyOptions) print(out io.Writer, bundles []*fleet.Bundle) error {
	format, file := formatYAML, ""
	switch o.output {
	case formatJSON:
		format = formatJSON
	case "-", formatYAML:
	default:
		file = o.output
		if strings.HasSuffix(file, ".json") {
			format = formatJSON
		}
	}
	var text bytes.Buffer
	var items []any
	for i, b := range bundles {
		doc, err := bundle.Export(b)
		if err != nil {
			return err
		}
		items = append(items, doc)
		if format == formatJSON {
			continue
		}
		if err := output(format).print(&text, doc, i > 0); err != nil {
			return err
		}
	}
	if format == formatJSON {
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
		if err := output(format).print(&text, list, false); err != nil {
			return err
		}
	}
	if file != "" {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil { //nolint:gosec // a file of the user's, like any other
			return fmt.Errorf("write bundles: %w", err)
		}
		return nil
	}
	_, err := out.Write(text.Bytes())
	return err
}
