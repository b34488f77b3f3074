// Command test runs the project's tests: first it makes sure that the
// sandbox's Kubernetes is built, with progress, then it runs go test with the
// stories on real API servers included.
//
//	go run ./hack/test                    everything that needs no root
//	go run ./hack/test -run Withdraw      only tests whose name matches
//	go run ./hack/test -unit              without stories, and without Kubernetes
//	go run ./hack/test -race              under the race detector (needs a C compiler)
//	go run ./hack/test -soak              with the tests that take their time
//
// It exits with go test's exit code.
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

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
)

type options struct {
	run  string
	race bool
	unit bool
	soak bool
	v    bool
}

func main() {
	var o options
	flag.StringVar(&o.run, "run", "", "only tests whose name matches this `regexp`")
	flag.BoolVar(&o.race, "race", false, "run under the race detector")
	flag.BoolVar(&o.unit, "unit", false, "no stories on real API servers")
	flag.BoolVar(&o.soak, "soak", false, "also the tests that take their time")
	flag.BoolVar(&o.v, "v", false, "print every test")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	packages := []string{"./..."}
	if o.unit {
		packages = []string{"./pkg/...", "./charts/..."}
	} else {
		fmt.Println("test: Kubernetes for the stories")
		if _, err := kubebin.Ensure(ctx, os.Stdout); err != nil {
			return err
		}
	}
	args := append([]string{"test", "-count=1", "-timeout=40m"}, o.flags()...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if o.soak {
		cmd.Env = append(cmd.Env, "FLEET_TEST_SOAK=1")
	}
	fmt.Println("test: go", args, packages)
	return cmd.Run()
}

func (o options) flags() []string {
	var flags []string
	if o.run != "" {
		flags = append(flags, "-run="+o.run)
	}
	if o.race {
		flags = append(flags, "-race")
	}
	if o.v {
		flags = append(flags, "-v")
	}
	return flags
}
