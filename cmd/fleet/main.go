// Command fleet is the command line of Fleet: it looks at a fleet, waits for
// it, and tells it to stop and go on. docs/cli describes every command.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand(stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil && !errors.As(err, new(told)) && !interrupted {
		tellError(os.Stderr, err, os.Getenv)
	}
	os.Exit(exitCode(err, interrupted))
}
