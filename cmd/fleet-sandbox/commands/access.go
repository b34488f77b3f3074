package commands

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

func newEnv(std stdio, at locate) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print shell commands that put fleet, fleet-sandbox and kubectl on PATH",
		Long:  `For this shell only: eval "$(fleet-sandbox env)". KUBECONFIG then leads to the sandbox, with one context per cluster.`,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			r, err := p.read()
			if err != nil {
				return err
			}
			printEnv(std.out, p, r)
			return nil
		},
	}
}

// printEnv prints commands for a POSIX shell.
func printEnv(out io.Writer, p place, r record) {
	fmt.Fprintf(out, "export PATH=%s:\"$PATH\"\n", quote(p.bin()))
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", quote(p.kubeconfig()))
	if r.Repository != "" {
		fmt.Fprintf(out, "export SANDBOX_REPO=%s\n", quote(r.Repository))
	}
	if p.First != fleet.DefaultFirstPort {
		fmt.Fprintf(out, "export %s=%d\n", portsVariable, p.First)
	}
}

func newKubeconfig(std stdio, at locate) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the path of a cluster's kubeconfig",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			if _, err := p.cluster(args[0]); err != nil {
				return err
			}
			fmt.Fprintln(std.out, p.clusterKubeconfig(args[0]))
			return nil
		},
	}
}

// cluster returns the record if its sandbox has a cluster of that name.
func (p place) cluster(name string) (record, error) {
	r, err := p.read()
	if err != nil {
		return r, err
	}
	if !slices.Contains(r.Clusters, name) {
		return r, fmt.Errorf("no cluster %q: there is %s", name, list(r.Clusters))
	}
	return r, nil
}

func newKubectl(_ stdio, at locate) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl NAME ARGUMENTS...",
		Short:              "Run kubectl against a cluster",
		DisableFlagParsing: true, // they are kubectl's
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				return fmt.Errorf("usage: fleet-sandbox kubectl NAME ARGUMENTS..., as in: fleet-sandbox kubectl c1 get pods -A")
			}
			r, err := p.cluster(args[0])
			if err != nil {
				return err
			}
			environ := kubectlEnvironment(os.Environ(), p, args[0])
			return syscall.Exec(r.Kubernetes, append([]string{"kubectl"}, args[1:]...), environ)
		},
	}
}

// kubectlEnvironment lets kubectl see one cluster and nothing of the user's.
func kubectlEnvironment(environ []string, p place, name string) []string {
	var kept []string
	for _, pair := range environ {
		key, _, _ := strings.Cut(pair, "=")
		if key != "KUBECONFIG" && key != "KUBECACHEDIR" && key != "KUBERC" {
			kept = append(kept, pair)
		}
	}
	return append(kept,
		"KUBECONFIG="+p.clusterKubeconfig(name),
		"KUBECACHEDIR="+filepath.Join(p.Run, "kubectl-cache"),
		"KUBERC=off")
}
