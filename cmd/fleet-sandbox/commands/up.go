package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// upOptions are the flags of up.
type upOptions struct {
	clusters   int
	managed    bool
	repo       string
	labels     []string
	detach     bool
	timeout    time.Duration
	kubernetes string
	programs   string
	force      bool
	debug      bool
	output     string
}

func newUp(std stdio, at locate) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a fleet, deploy a repository to it and keep it running",
		Long: "Starts a management cluster and downstream clusters, each a real Kubernetes control plane,\n" +
			"with the real manager and agents, serves a repository and deploys it.\n" +
			"Exit codes: 0 ended by the user, 1 failed (nothing is left running), 3 not Ready in time.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.managed && cmd.Flags().Changed("clusters") {
				return errors.New("--managed says which clusters there are: leave --clusters out")
			}
			p, err := at()
			if err != nil {
				return err
			}
			return runUp(cmd.Context(), o, p, std)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.clusters, "clusters", 2, "how many downstream clusters: c1, c2 and so on")
	flags.BoolVar(&o.managed, "managed", false, "three tiers: a downstream cluster, lower, that has a manager of its own, and leaf below that")
	flags.StringVar(&o.repo, "repo", "", "what to deploy: a `folder`, or the URL of a git repository (default: a copy of examples/)")
	flags.StringArrayVar(&o.labels, "label", nil, "label of a downstream cluster, as in `c1=env=prod`; may be repeated")
	flags.BoolVar(&o.detach, "detach", false, "return when everything is Ready, and keep it running")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long it may take from start to Ready, builds not counted")
	flags.StringVar(&o.kubernetes, "kubernetes-bin", "", "`folder` or file of a Kubernetes executable built earlier")
	flags.StringVar(&o.programs, "fleet-bin", "", "`folder` with fleet, fleet-controller and fleet-agent built earlier")
	flags.BoolVar(&o.force, "force", false, "start even if memory or disk seem too small")
	flags.BoolVar(&o.debug, "debug", false, "manager and agents log debug messages")
	flags.StringVarP(&o.output, "output", "o", "", "json: print one document instead of the tables")
	return cmd
}

// validate returns the downstream clusters that the options ask for.
func (o upOptions) validate() ([]fleet.Downstream, error) {
	if o.clusters < 0 || o.clusters > 200 {
		return nil, fmt.Errorf("--clusters %d: want 0 to 200", o.clusters)
	}
	if o.output != "" && o.output != "json" {
		return nil, fmt.Errorf("-o %s: want json", o.output)
	}
	if o.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %s: want more than 0", o.timeout)
	}
	list := threeTiers()
	if !o.managed {
		list = nil
		for i := range o.clusters {
			list = append(list, fleet.Downstream{
				Name:   fmt.Sprintf("c%d", i+1),
				Labels: map[string]string{"env": environmentOf(i, o.clusters)},
			})
		}
	}
	for _, text := range o.labels {
		if err := label(list, text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// environmentOf is the value of label env of the i-th of n clusters: the last
// is prod, the first dev, and what lies between is test.
func environmentOf(i, n int) string {
	switch i {
	case n - 1:
		return "prod"
	case 0:
		return "dev"
	default:
		return "test"
	}
}

var (
	labelKey   = regexp.MustCompile(`^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
)

// label sets a label given as CLUSTER=KEY=VALUE.
func label(list []fleet.Downstream, text string) error {
	parts := strings.SplitN(text, "=", 3)
	if len(parts) != 3 || !labelKey.MatchString(parts[1]) || !labelValue.MatchString(parts[2]) {
		return fmt.Errorf("--label %q: want CLUSTER=KEY=VALUE, as in c1=env=prod", text)
	}
	d := find(list, parts[0])
	if d == nil {
		return fmt.Errorf("--label %q: there is no cluster %q; there are %s", text, parts[0], nameList(list))
	}
	d.Labels[parts[1]] = parts[2]
	return nil
}

func nameList(list []fleet.Downstream) string {
	if len(list) == 0 {
		return "none"
	}
	var names []string
	for _, d := range fleet.Flatten(list) {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// A plan is all that up has found out before it starts anything.
type plan struct {
	options    upOptions
	place      place
	builder    kubebin.Builder
	downstream []fleet.Downstream
	ports      fleet.Ports
	kubernetes string // the executable; empty: to be built
	programs   string // folder of Fleet's programs; empty: to be built
}

// runUp checks, builds, starts, deploys, and keeps the fleet running until
// ctx ends or it cannot go on.
func runUp(ctx context.Context, o upOptions, p place, std stdio) error {
	downstream, err := o.validate()
	if err != nil {
		return err
	}
	root, err := source.Root()
	if err != nil {
		return err
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		return err
	}
	todo := plan{
		options: o, place: p, builder: builder, downstream: downstream,
		ports: fleet.Ports{First: p.First, Clusters: len(fleet.Flatten(downstream))},
	}
	if o.kubernetes != "" {
		if todo.kubernetes, err = kubernetesIn(o.kubernetes); err != nil {
			return err
		}
	}
	if o.programs != "" {
		if todo.programs, err = programsIn(o.programs); err != nil {
			return err
		}
	}
	if o.detach && !isDetached() {
		return detach(ctx, p)
	}
	return todo.run(ctx, std)
}

// kubernetesIn finds the executable that --kubernetes-bin names: a file, or
// one called kubernetes or kubernetes-* in a folder.
func kubernetesIn(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("--kubernetes-bin: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("--kubernetes-bin: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join(path, "kubernetes*"))
	if err != nil {
		return "", fmt.Errorf("--kubernetes-bin: %w", err)
	}
	for _, file := range found {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("--kubernetes-bin: no executable kubernetes in %q", path)
}

// programsIn checks the folder that --fleet-bin names.
func programsIn(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("--fleet-bin: %w", err)
	}
	for _, name := range kubebin.Programs {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			return "", fmt.Errorf("--fleet-bin: %w", err)
		}
	}
	return path, nil
}

// errTimeout is the cause of the end of a start that takes too long.
var errTimeout = errors.New("not in time (--timeout)")
