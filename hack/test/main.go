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
	"strings"
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

// A stage is one call of go test.
type stage struct {
	packages []string
	flags    []string
}

// stages are what to run, in order. Tests that start clusters wait most of their
// time, so two packages run at once; more would starve each other on a small
// machine.
func (o options) stages(all []string) []stage {
	var unit, clusters []string
	for _, p := range all {
		if strings.Contains(p, "/integrationtests") || strings.Contains(p, "/cmd/fleet-sandbox") {
			clusters = append(clusters, p)
		} else {
			unit = append(unit, p)
		}
	}
	stages := []stage{{packages: unit, flags: o.flags()}}
	if !o.unit {
		stages = append(stages, stage{packages: clusters, flags: append(o.flags(), "-p=2")})
	}
	return stages
}

func run(ctx context.Context, o options) error {
	if !o.unit {
		fmt.Println("test: Kubernetes for the stories")
		if _, err := kubebin.Ensure(ctx, os.Stdout); err != nil {
			return err
		}
	}
	list, err := exec.CommandContext(ctx, "go", "list", "./...").Output()
	if err != nil {
		return fmt.Errorf("list packages: %w", err)
	}
	var failed error
	for _, s := range o.stages(strings.Fields(string(list))) {
		if err := o.goTest(ctx, s); err != nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// goTest runs one stage, with its output on our own. What only debuggers read is
// left out of the programs: linking takes half the time.
func (o options) goTest(ctx context.Context, s stage) error {
	args := append([]string{"test", "-count=1", "-timeout=60m", "-ldflags=-s"}, s.flags...)
	fmt.Println("test: go", strings.Join(args, " "), "for", len(s.packages), "packages")
	cmd := exec.CommandContext(ctx, "go", append(args, s.packages...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), o.env()...)
	return cmd.Run()
}

// env is what go test gets besides our own environment. Without cgo the tests
// share compiled packages with the sandbox's programs; the race detector needs
// it.
func (o options) env() []string {
	env := []string{"CGO_ENABLED=0"}
	if o.race {
		env = []string{"CGO_ENABLED=1"}
	}
	if o.soak {
		env = append(env, "FLEET_TEST_SOAK=1")
	}
	return env
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
