// Command e2e runs the tests of a fleet of real pods (integrationtests/pods): three
// network namespaces that are machines, with containerd, runc and a kubelet each.
//
//	go run ./hack/e2e            where root and Debian's packages are at hand
//	go run ./hack/e2e -install   install those packages first, where apt can
//
// Where it cannot run it prints why, in one line. It exits with 0 then, unless CI is
// set in the environment: there it exits with 1, so that a run without real pods is
// not taken for a run of all tests. FLEET_E2E=optional lets CI go on without them.
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
		os.Exit(skip(err, os.Getenv))
	}
	err := report(ctx, *update)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// skip prints why the tests cannot run here, and returns the exit code.
func skip(missing error, getenv func(string) string) int {
	if getenv("CI") == "" || getenv("FLEET_E2E") == "optional" {
		fmt.Println("e2e: skipped:", missing)
		return 0
	}
	fmt.Fprintf(os.Stderr, "e2e: CI needs real pods: %v; with FLEET_E2E=optional in the environment CI goes on without them\n", missing)
	return 1
}

// report runs the tests, with what go run ./hack/test has compiled.
func report(ctx context.Context, update bool) error {
	args := []string{"test", "-count=1", "-v", "-timeout=60m", "-vet=off", "-trimpath", "-ldflags=-s", "./integrationtests/pods"}
	if update {
		args = append(args, "-update")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "FLEET_TEST_PODS=1")
	return cmd.Run()
}
