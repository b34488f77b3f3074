// The fleet-agent program: the downstream side of Fleet, and a command that
// tells how it is doing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stderr := os.Stderr
	if silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = silent // kustomize warns there, between the lines of the log
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Getenv, os.Stdout, stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "fleet-agent:", err)
		os.Exit(1)
	}
}
