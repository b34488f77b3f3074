// Command fleet is the command line of Fleet: it shows a fleet, waits for it, and stops
// and resumes it. docs/cli describes every command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

func main() {
	std := printer.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = silent // libraries warn there, without a file or a line; kustomize does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	g := newGlobals(std)
	cmd, err := command(g, std).ExecuteContextC(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(reportEnd(g, cmd, std, client.CommandEnd{Err: err, Interrupted: interrupted}, os.Getenv))
}
