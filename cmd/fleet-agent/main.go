// The fleet-agent program: the downstream side of Fleet, and a command that
// reports how it is doing.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// exitNotReady is the exit code of status --exit-code where something is not as
// it should be; docs/cli promises it.
const exitNotReady = 3

func main() {
	stderr := os.Stderr
	if silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = silent // kustomize warns there, between the lines of the log
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out, errOut := printable.NewWriter(os.Stdout), printable.NewWriter(stderr)
	err := command(os.Getenv, out, errOut).ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, errNotReady):
		os.Exit(exitNotReady)
	case err != nil:
		printable.Fprintf(errOut, "fleet-agent: %v\n", err)
		os.Exit(1)
	}
}
