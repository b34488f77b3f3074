// Command fleet-controller is the manager: it reads repositories, targets
// clusters, registers agents and writes status. One binary takes one role or
// several; docs/architecture.md says which loops each role runs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Getenv, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fleet-controller: %v\n", err)
		os.Exit(1)
	}
}
