package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// Options are the flags of fleet apply; they are rancher/fleet's, except --strict,
// --offline and --approve.
type Options struct {
	Name  string
	paths []string

	File        string
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
	Bundle      bundle.Options
	helm        sources.HelmAccess
}

// AddFlags adds the flags of the command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	b := &o.Bundle
	fs.StringVarP(&o.File, "file", "f", "", "write the one Bundle in `file`; - is stdin")
	fs.StringVarP(&o.bundleFile, "bundle-file", "b", "", "each PATH is one bundle, with the options in this `file` below it instead of fleet.yaml; or the same as -f if it is a Bundle")
	fs.StringVarP(&o.output, "output", "o", "", "write to `file` and not into a cluster; - is stdout as YAML, yaml and json are stdout too; a name ending in .json is JSON")
	fs.StringVar(&o.commit, "commit", "", "`commit` that the bundles are labelled with; default: COMMIT, or HEAD here")
	cli.LabelsVar(fs, &b.Labels, "label", "l", "labels of all bundles, `k=v,...`")
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
	o.helm.AddFlags(fs)
}

const (
	defaultWriters = 4
	defaultRetries = 1
)

// Complete reads arguments and environment.
func (o *Options) Complete(fs *pflag.FlagSet, args []string, env func(string) string) error {
	if o.File == "" && slices.Equal(args, []string{"-"}) {
		o.File, args = "-", nil
	}
	if err := o.chooseFile(); err != nil {
		return err
	}
	var err error
	if o.retries, err = positiveNumber(env("FLEET_APPLY_CONFLICT_RETRIES"), defaultRetries); err != nil {
		return fmt.Errorf("FLEET_APPLY_CONFLICT_RETRIES: %w", err)
	}
	if !fs.Changed("bundle-creation-max-concurrency") {
		if o.writers, err = positiveNumber(env("FLEET_BUNDLE_CREATION_MAX_CONCURRENCY"), defaultWriters); err != nil {
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
	if o.File != "" {
		return o.completeFile(fs, args)
	}
	if len(args) == 0 {
		return errors.New("want NAME, and then PATH...: fleet apply --help shows examples")
	}
	if o.bundleFile != "" && o.drivenScan {
		return errors.New("--bundle-file and --driven-scan go one without the other: say PATH" + o.separator + "FILE")
	}
	o.Name, o.paths = args[0], args[1:]
	if info, err := os.Stat(o.Name); o.output == "" && len(o.paths) == 0 && err == nil && info.IsDir() {
		return fmt.Errorf("%s is the NAME of the bundles and a directory here: fleet apply NAME %[1]s writes that directory, fleet apply %[1]s . the working directory",
			o.Name)
	}
	o.Bundle.Repo, o.Bundle.CorrectDrift = o.Name, &o.drift
	if err := o.completeCommit(env); err != nil {
		return err
	}
	if err := sources.CheckAccount(o.Bundle.ServiceAccount); err != nil {
		return err
	}
	return o.helm.Complete(env)
}

// completeCommit reads the commit of the environment, and refuses one that no Bundle can
// be labelled with.
func (o *Options) completeCommit(env func(string) string) error {
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

// chooseFile finds out which of the two meanings of --bundle-file is meant: a
// Bundle, as its help has always said, or options for the paths, as it has
// always been used.
func (o *Options) chooseFile() error {
	if o.bundleFile == "" || o.File != "" {
		return nil
	}
	data, err := os.ReadFile(o.bundleFile)
	if err == nil && sources.IsBundle(data) {
		o.File, o.bundleFile = o.bundleFile, ""
	}
	return nil
}

// completeFile refuses what says nothing about a Bundle that is there already.
func (o *Options) completeFile(fs *pflag.FlagSet, args []string) error {
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
		o.Name = args[0]
	}
	return nil
}

// positiveNumber is a positive number of the environment.
func positiveNumber(text string, otherwise int) (int, error) {
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
func (o *Options) noteDirectory(std printer.Stdio) {
	if info, err := os.Stat(o.Name); len(o.paths) == 0 && err == nil && info.IsDir() {
		std.Note("note: %s is the NAME of the bundles and a directory here: the working directory is read; fleet apply -o %s NAME %[1]s reads that directory",
			o.Name, o.output)
	}
}

// Run reads the directories, and prints or writes their Bundles.
func Run(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) error {
	if err := o.gather(std); err != nil {
		return err
	}
	o.noteDirectory(std)
	set, err := o.readBundles(ctx, std)
	if err != nil {
		return err
	}
	if err := sources.ReportFindings(std, set, o.strict, o.output != ""); err != nil {
		return err
	}
	if !slices.ContainsFunc(set.Results, func(r bundle.Result) bool { return r.Bundle != nil }) {
		return fmt.Errorf("%w: nothing to deploy in %s", cli.ErrInput, strings.Join(o.paths, ", "))
	}
	if o.output != "" {
		return o.printBundles(std.Out, set)
	}
	return o.writeBundles(ctx, g, set, std)
}
