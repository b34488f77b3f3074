// Command e2e tells the story of a fleet of real pods (integrationtests/pods): three
// namespaces that are machines, with containerd, runc and a kubelet each.
//
//	go run ./hack/e2e            where root and Debian's packages are at hand
//	go run ./hack/e2e -install   install those packages first, where apt can
//
// Where it cannot run it says why, in one line, and exits with 0: a laptop without
// root fails nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
)

func main() {
	install := flag.Bool("install", false, "install missing Debian packages with apt-get, which needs root")
	update := flag.Bool("update", false, "rewrite the list of what may be written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *install {
		if err := installPackages(ctx); err != nil {
			fmt.Println("e2e:", err) // what is missing is said below
		}
	}
	if err := node.Missing(); err != nil {
		fmt.Println("e2e: skipped:", err)
		return
	}
	err := tell(ctx, *update)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// tell runs the story.
func tell(ctx context.Context, update bool) error {
	args := []string{"test", "-count=1", "-v", "-timeout=60m", "./integrationtests/pods"}
	if update {
		args = append(args, "-update")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "FLEET_TEST_PODS=1")
	return cmd.Run()
}
