package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// gather reads what comes from files and from around the command.
func (o *Options) gather(std printer.Stdio) error {
	if o.commit == "" {
		head, err := git.Head(".")
		if err != nil && !errors.Is(err, git.ErrNoCheckout) {
			return err
		}
		o.commit = string(head.Commit)
	}
	if o.commit != "" {
		labels := map[string]string{fleet.LabelCommit: o.commit}
		maps.Copy(labels, o.Bundle.Labels)
		o.Bundle.Labels = labels
	}
	if o.targetsFile == "" {
		return nil
	}
	data, err := os.ReadFile(o.targetsFile)
	if err != nil {
		return cli.OfFlag("targets-file", err)
	}
	targets, found := fleetyaml.ParseTargets(o.targetsFile, data)
	if n := sources.ReportFound(std, found, o.strict); n > 0 {
		return fmt.Errorf("%w: %s in %s", cli.ErrInput, printer.Plural(n, "error"), o.targetsFile)
	}
	o.Bundle.Targets, o.Bundle.Restrictions = targets.Targets, targets.TargetRestrictions
	return nil
}

// readBundles makes the bundles of the working directory. A PATH that leads to no directory is an
// error: the bundles of the directory that is meant would be removed.
func (o *Options) readBundles(ctx context.Context, std printer.Stdio) (bundle.Set, error) {
	access, err := o.helm.Access()
	if err != nil {
		return bundle.Set{}, err
	}
	if o.helm.Unsent() {
		std.Note("note: the credentials for charts are sent nowhere without --helm-repo-url-regex")
	}
	entries, err := o.bundlePaths()
	if err != nil {
		return bundle.Set{}, err
	}
	in := bundlesource.Input{Paths: o.paths, Entries: entries, Options: o.Bundle, Access: access}
	set, err := sources.ReadTree(ctx, ".", in, bundlesource.Config{Offline: o.offline, Parallel: o.writers})
	return set.RefuseAbsent(), err
}

// bundlePaths makes the arguments relative to the working directory. The entries
// are the bundles, where each argument is one.
func (o *Options) bundlePaths() ([]fleet.BundlePath, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	args := o.paths
	if len(args) == 0 {
		args = []string{"."}
	}
	o.paths = nil
	var entries []fleet.BundlePath
	for _, arg := range args {
		options := o.bundleFile
		if o.drivenScan && o.separator != "" {
			if arg, options, _ = strings.Cut(arg, o.separator); strings.Contains(options, o.separator) {
				return nil, fmt.Errorf("%q: want BASE or BASE%sOPTIONSFILE", arg+o.separator+options, o.separator)
			}
		}
		if arg, err = relativePath(here, arg); err != nil {
			return nil, err
		}
		o.paths = append(o.paths, arg)
		entries = append(entries, fleet.BundlePath{Base: arg, Options: options})
	}
	if !o.drivenScan && o.bundleFile == "" {
		return nil, nil
	}
	return entries, nil
}

// relativePath makes an absolute PATH relative to the working directory. For a PATH outside of
// it the leading slash is ignored, as in a GitRepo; if that does not exist but the
// absolute PATH does, the error says from which directory it can be read.
func relativePath(here, arg string) (string, error) {
	if !filepath.IsAbs(arg) {
		return arg, nil
	}
	if rel, err := filepath.Rel(here, arg); err == nil && filepath.IsLocal(rel) {
		return rel, nil
	}
	if matches, err := filepath.Glob(strings.TrimLeft(arg, "/")); err != nil || len(matches) > 0 {
		return arg, nil //nolint:nilerr // the reader says what is wrong with the pattern
	}
	if _, err := os.Stat(arg); err != nil {
		return arg, nil //nolint:nilerr // the reader says that there is no such directory
	}
	dir, name := filepath.Split(filepath.Clean(arg))
	return "", fmt.Errorf("%w: %s is not below the working directory %s, and PATH is relative to it; run the command in %s with PATH %s",
		cli.ErrInput, arg, here, filepath.Clean(dir), name)
}
