package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

const applyText = `Reads directories as a GitRepo of that name would, and writes the Bundles that they make into a workspace, with your own rights; with -o it
prints them instead, needs no cluster and changes nothing.

PATH is relative to the working directory and may be a shell pattern; default: the working directory. What is wrong in a file is said on stderr,
with its place, as fleet lint says it; then nothing is printed or written, and the exit code is 4.

Bundles that carry the label fleet.cattle.io/repo-name=NAME and are not made any more are removed, after everything new was written: those above
the deletion budget, or with PersistentVolumeClaims, Namespaces or CustomResourceDefinitions, only with --approve (exit code 5). A Bundle that
belongs to another GitRepo or to a HelmOp, and a Secret that is not Fleet's, are not touched (exit code 5).

If NAME is a directory too and there is no PATH, nothing is written, and with -o a note says so: fleet apply NAME . takes the working directory.
A bundle that matches no cluster of the workspace is written, and a note says so.

With -f FILE, or as "fleet apply -" from stdin, one Bundle is written as it stands there, and nothing is removed.

Charts are downloaded as a GitRepo does it. Credentials are sent only to URLs that match --helm-repo-url-regex.`

// applyOptions are the flags of fleet apply; they are the reference's, except --strict,
// --offline and --approve.
type applyOptions struct {
	name  string
	paths []string

	file        string
	bundleFile  string
	output      string
	commit      string
	targetsFile string
	drivenScan  bool
	separator   string
	strict      bool
	offline     bool
	ociSecret   string
	approve     string
	noRegistry  bool
	writers     int
	retries     int
	drift       fleet.CorrectDrift
	bundle      bundle.Options
	helm        helmAccess
}

func newApplyCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := applyOptions{}
	cmd := &cobra.Command{
		Use: "apply NAME [PATH...]", Short: "Make Bundles of directories, and write or print them", Long: applyText,
		Example: `  fleet apply -o - examples web settings
  fleet apply -n fleet-default -l team=shop examples web
  fleet apply -o bundles.json -n fleet-default --commit 3f9c2e1 examples
  fleet apply --username ci --password-file token \
    --helm-repo-url-regex 'https://charts\.example/' charts .
  fleet apply -o - examples web | fleet apply -n fleet-default -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd.Flags(), args, os.Getenv); err != nil {
				return err
			}
			if o.file != "" {
				return runApplyFile(cmd.Context(), g, o, std)
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			o.bundle.Namespace = g.namespace
			return runApply(cmd.Context(), g, o, std)
		},
	}
	o.addFlags(cmd.Flags())
	completeFiles(cmd, "file", "bundle-file", "targets-file", "output", "password-file", "cacerts-file", "ssh-privatekey-file", "helm-credentials-by-path-file")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}

func (o *applyOptions) addFlags(fs *pflag.FlagSet) {
	b := &o.bundle
	fs.StringVarP(&o.file, "file", "f", "", "write the one Bundle in `file`; - is stdin")
	fs.StringVarP(&o.bundleFile, "bundle-file", "b", "", "each PATH is one bundle, with the options in this `file` below it instead of fleet.yaml; or the same as -f if it is a Bundle")
	fs.StringVarP(&o.output, "output", "o", "", "write to `file` and not into a cluster; - is stdout as YAML, yaml and json are stdout too; a name ending in .json is JSON")
	fs.StringVar(&o.commit, "commit", "", "`commit` that the bundles are labelled with; default: COMMIT, or HEAD here")
	labelsVar(fs, &b.Labels, "label", "l", "labels of all bundles, `k=v,...`")
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
	fs.BoolVar(&b.ImageScans, "imagescan-enabled", false, "take imageScans in fleet.yaml; without it they are an error")
	fs.StringVar(&o.ociSecret, "oci-registry-secret", "", "`Secret` in the workspace that names the registry to keep bundles in; default: ocistorage, if it is there")
	fs.IntVar(&o.writers, "bundle-creation-max-concurrency", defaultWriters, "`number` of bundles, and of charts, at once; default: that of the environment")
	fs.StringVar(&o.approve, "approve", "", "`hash` of the list of removals that is approved")
	fs.BoolVar(&o.strict, "strict", false, "warnings are errors")
	fs.BoolVar(&o.offline, "offline", false, "download nothing: a chart that is not here is an error")
	o.helm.addFlags(fs)
}

const (
	defaultWriters = 4
	defaultRetries = 1
)

// complete reads arguments and environment.
func (o *applyOptions) complete(fs *pflag.FlagSet, args []string, env func(string) string) error {
	if o.file == "" && slices.Equal(args, []string{"-"}) {
		o.file, args = "-", nil
	}
	if err := o.chooseFile(); err != nil {
		return err
	}
	var err error
	if o.retries, err = number(env("FLEET_APPLY_CONFLICT_RETRIES"), defaultRetries); err != nil {
		return fmt.Errorf("FLEET_APPLY_CONFLICT_RETRIES: %w", err)
	}
	if !fs.Changed("bundle-creation-max-concurrency") {
		if o.writers, err = number(env("FLEET_BUNDLE_CREATION_MAX_CONCURRENCY"), defaultWriters); err != nil {
			return fmt.Errorf("FLEET_BUNDLE_CREATION_MAX_CONCURRENCY: %w", err)
		}
	}
	if text := env("OCI_STORAGE"); text != "" {
		on, err := strconv.ParseBool(text)
		o.noRegistry = err == nil && !on
	}
	if o.writers < 1 {
		return fmt.Errorf("--bundle-creation-max-concurrency: want a number from 1, got %d", o.writers)
	}
	if o.file != "" {
		return o.completeFile(fs, args)
	}
	if len(args) == 0 {
		return errors.New("want NAME, and then PATH...: fleet apply --help shows examples")
	}
	if o.bundleFile != "" && o.drivenScan {
		return errors.New("--bundle-file and --driven-scan go one without the other: say PATH" + o.separator + "FILE")
	}
	o.name, o.paths = args[0], args[1:]
	if info, err := os.Stat(o.name); o.output == "" && len(o.paths) == 0 && err == nil && info.IsDir() {
		return fmt.Errorf("%s is the NAME of the bundles and a directory here: fleet apply NAME %[1]s writes that directory, fleet apply %[1]s . the working directory",
			o.name)
	}
	o.bundle.Repo, o.bundle.CorrectDrift = o.name, &o.drift
	if err := o.completeCommit(env); err != nil {
		return err
	}
	if err := checkAccount(o.bundle.ServiceAccount); err != nil {
		return err
	}
	return o.helm.complete(env)
}

// completeCommit reads the commit of the environment, and refuses one that no Bundle can
// be labelled with.
func (o *applyOptions) completeCommit(env func(string) string) error {
	from := "--commit"
	if o.commit == "" {
		o.commit, from = env("COMMIT"), "COMMIT"
	}
	if len(validation.IsValidLabelValue(o.commit)) == 0 {
		return nil
	}
	return fmt.Errorf("%s %q is not possible: it becomes a label of the bundles, of at most %d letters, digits, . _ and -",
		from, o.commit, validation.LabelValueMaxLength)
}

// checkAccount refuses what no bundle can act as.
func checkAccount(name string) error {
	switch {
	case name == "":
		return nil
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("--service-account %q is not possible: want lower case letters, digits, . and -", name)
	case naming.FleetAccount(name):
		return fmt.Errorf("--service-account %q is Fleet's own; no bundle may act as it", name)
	}
	return nil
}

// chooseFile finds out which of the two meanings of --bundle-file is meant: a
// Bundle, as its help has always said, or options for the paths, as it has
// always been used.
func (o *applyOptions) chooseFile() error {
	if o.bundleFile == "" || o.file != "" {
		return nil
	}
	data, err := os.ReadFile(o.bundleFile)
	if err == nil && isBundle(data) {
		o.file, o.bundleFile = o.bundleFile, ""
	}
	return nil
}

// completeFile refuses what says nothing about a Bundle that is there already.
func (o *applyOptions) completeFile(fs *pflag.FlagSet, args []string) error {
	var wrong error
	fs.Visit(func(f *pflag.Flag) {
		allowed := []string{
			"file", "bundle-file", "output", "oci-registry-secret", "bundle-creation-max-concurrency",
			"namespace", "kubeconfig", "context", "system-namespace", "quiet", "debug",
		}
		if wrong == nil && !slices.Contains(allowed, f.Name) {
			wrong = fmt.Errorf("--%s goes with directories: a Bundle from a file is written as it stands there", f.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	if len(args) > 1 {
		return fmt.Errorf("a Bundle from a file has at most a NAME, not %q", strings.Join(args, " "))
	}
	if len(args) == 1 {
		o.name = args[0]
	}
	return nil
}

// number is a positive number of the environment.
func number(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number from 1, got %q", text)
	}
	return n, nil
}

// noteDirectory notes that NAME is no PATH, where it is a directory too and no PATH is
// given. Where the bundles would be written that is an error (complete).
func (o *applyOptions) noteDirectory(std printer.Stdio) {
	if info, err := os.Stat(o.name); len(o.paths) == 0 && err == nil && info.IsDir() {
		std.Note("note: %s is the NAME of the bundles and a directory here: the working directory is read; fleet apply -o %s NAME %[1]s reads that directory",
			o.name, o.output)
	}
}

// runApply reads the directories, and prints or writes their Bundles.
func runApply(ctx context.Context, g *globals, o applyOptions, std printer.Stdio) error {
	if err := o.gather(std); err != nil {
		return err
	}
	o.noteDirectory(std)
	set, err := o.read(ctx, std)
	if err != nil {
		return err
	}
	if err := reportFindings(std, set, o.strict, o.output != ""); err != nil {
		return err
	}
	if !slices.ContainsFunc(set.Results, func(r bundle.Result) bool { return r.Bundle != nil }) {
		return fmt.Errorf("%w: nothing to deploy in %s", errInput, strings.Join(o.paths, ", "))
	}
	if o.output != "" {
		return o.print(std.Out, set)
	}
	return o.write(ctx, g, set, std)
}
