// Package commands has the commands of fleet-sandbox: they start a whole fleet, keep it
// running and change it on request.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// Exit codes, as for all commands of Fleet.
const (
	exitFailed      = 1
	exitNotReady    = 3
	exitInterrupted = 130
)

// stdio is where a command reads and writes: the answer goes to out,
// everything else to err.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// errInterrupted ends a command that the user stopped.
var errInterrupted = errors.New("interrupted")

// errNotReady ends a command after it has printed what is not Ready.
var errNotReady = errors.New("not everything is Ready")

// exitCode ends with the exit code of a program that was run for the user.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the command of the command line and ends the process with its exit code.
func Main() {
	keepFromChildren()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	std := stdio{os.Stdin, os.Stdout, os.Stderr}
	err := newCommand(std).ExecuteContext(ctx)
	os.Exit(report(std.err, err))
}

// report prints an error for people and returns the exit code.
func report(out io.Writer, err error) int {
	var (
		details interface{ Details() []string }
		code    exitCode
		death   *process.Death
	)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNotReady):
		return exitNotReady
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &death):
		fmt.Fprintln(out, "error:", death)
	default:
		fmt.Fprintln(out, "error:", err)
	}
	if errors.As(err, &details) {
		for _, line := range details.Details() {
			fmt.Fprintln(out, " ", line)
		}
	}
	return exitFailed
}

// newCommand makes the command with all its verbs.
func newCommand(std stdio) *cobra.Command {
	root := &cobra.Command{
		Use:           "fleet-sandbox",
		Short:         "A whole fleet of real Kubernetes clusters on this machine",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	first := root.PersistentFlags().Int("ports", portsFromEnvironment(), "first `port` of the sandbox's block on 127.0.0.1; names the sandbox where several run")
	at := func() (place, error) { return findPlace(*first) }
	root.AddCommand(
		newUp(std, at), newDown(std, at), newStatus(std, at), newEnv(std, at),
		newKubeconfig(std, at), newKubectl(std, at), newLogs(std, at),
		newCut(std, at), newHeal(std, at), newStop(std, at), newStart(std, at), newKill(std, at),
		newJanitor(std, at),
	)
	return root
}

// locate finds the folders of the sandbox that the command line names.
type locate func() (place, error)

// portsVariable names the sandbox for the commands of the shell of env, where
// it is not the default one.
const portsVariable = "FLEET_SANDBOX_PORTS"

func portsFromEnvironment() int {
	var port int
	if _, err := fmt.Sscan(os.Getenv(portsVariable), &port); err == nil && port > 0 {
		return port
	}
	return fleet.DefaultFirstPort
}
