// Command fleet-sandbox runs a whole fleet on one machine: a management
// cluster with the manager, downstream clusters with their agents, and a git
// server. Start it inside a clone with
//
//	go run ./cmd/fleet-sandbox up
//
// This program is only the door: it needs nothing but the standard library,
// so that it is compiled in a moment, and brings the launcher up to date with
// visible progress before it becomes that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	path, err := launcher(ctx)
	stop()
	if err == nil {
		err = syscall.Exec(path, append([]string{"fleet-sandbox"}, os.Args[1:]...), os.Environ())
	}
	if ctx.Err() != nil {
		os.Exit(130)
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	var failure *kubebin.Failure
	if errors.As(err, &failure) {
		for _, line := range failure.Details() {
			fmt.Fprintln(os.Stderr, " ", line)
		}
	}
	os.Exit(1)
}

// launcher builds the launcher from the clone and returns its path.
func launcher(ctx context.Context) (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	b, err := kubebin.Default(root)
	if err != nil {
		return "", err
	}
	begin := time.Now()
	return b.NarratedLauncher(ctx, func(line string) {
		fmt.Fprintf(os.Stderr, "%s  build     %s\n", kubebin.Elapsed(time.Since(begin)), line)
	})
}
