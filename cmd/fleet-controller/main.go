// Command fleet-controller is the manager: it reads repositories, targets
// clusters, registers agents and writes status. One binary takes one role or
// several; docs/architecture.md says which loops each role runs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // of schedules of agents; an image from scratch has no time zones
)

// garbage is how much memory may fill up with what is not in use any more, in
// percent of what is, before it is collected. The caches of many clusters are
// most of a manager's memory and hardly change; half of Go's default saves a
// quarter of it for a few percent of the processor time of a rollout. The
// environment's GOGC overrides it.
const garbage = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Getenv, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fleet-controller: %v\n", err)
		os.Exit(1)
	}
}
