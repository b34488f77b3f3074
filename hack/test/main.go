// Command test runs the project's tests: first it makes sure that the
// sandbox's Kubernetes is built, with progress, then it runs go test with the
// tests on real API servers included.
//
//	go run ./hack/test                    everything that needs no root
//	go run ./hack/test -run Withdraw      only tests whose name matches
//	go run ./hack/test -unit              without tests on API servers, and without Kubernetes
//	go run ./hack/test -race              under the race detector (needs a C compiler): unit tests of packages
//	                                      that start goroutines, and those tests on API servers that run
//	                                      manager and agents in one process
//	go run ./hack/test -soak              with the tests that take their time
//
// It refuses to begin where the disk has too little free space. It exits with go test's
// exit code. It counts the tests that are skipped. With
// -strict, and where CI is set in the environment, it exits with 1 if they are not
// those of skipped.txt (with -race: of skipped_race.txt), unless -run, -unit or -soak
// is given.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// module is the path of the module whose tests these are.
const module = "github.com/fleetworkspace/fleet"

type options struct {
	run    string
	race   bool
	unit   bool
	soak   bool
	v      bool
	strict bool
}

func main() {
	var o options
	flag.StringVar(&o.run, "run", "", "only tests whose name matches this `regexp`")
	flag.BoolVar(&o.race, "race", false, "run under the race detector")
	flag.BoolVar(&o.unit, "unit", false, "no tests on real API servers")
	flag.BoolVar(&o.soak, "soak", false, "also the tests that take their time")
	flag.BoolVar(&o.v, "v", false, "print every test")
	flag.BoolVar(&o.strict, "strict", os.Getenv("CI") != "", "fail if other tests are skipped than those that are listed")
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

// loops are packages whose tests run manager and agents together in the test's own process,
// so that the race detector sees them. It sees each loop by itself in the unit tests, on the
// API server in memory.
var loops = []string{
	"/integrationtests/checkin",  // agents that check in, with the manager
	"/integrationtests/delivery", // the agent's deployments, with the manager
}

// longest are the packages whose tests on API servers take longest, the longest first.
// They begin before the others: a long package that begins last runs alone, while the
// other slot is empty.
var longest = []string{
	"/integrationtests/fleet",
	"/integrationtests",
	"/integrationtests/agentmanagement",
	"/integrationtests/rancher",
	"/integrationtests/gitrepo",
	"/integrationtests/size",
	"/integrationtests/terminating",
	"/integrationtests/moving",
}

// longestFirst sorts packages by longest; the others keep their order behind them.
func longestFirst(packages []string) {
	rank := func(p string) int {
		i := slices.Index(longest, strings.TrimPrefix(p, module))
		if i < 0 {
			return len(longest)
		}
		return i
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
}

// growHeaps lets the heaps of compiler and tests grow to five times of what is in use: to
// collect garbage takes a quarter of the processor time of tests with an API server in
// memory. Package harness does not pass it on to the programs whose memory tests measure.
const growHeaps = "GOGC=400"

// parallel is how many packages are tested at once on n processors: tests of
// integrationtests wait for more than half of their time.
func parallel(n int) int { return max(n, 6) }

// packages chooses and sorts the packages of a run. With the race detector all are those
// in which it can find something.
func (o options) packages(all []string) []string {
	var list []string
	for _, p := range all {
		onServers := strings.Contains(p, "/integrationtests") || strings.Contains(p, "/cmd/fleet-sandbox")
		switch {
		case !onServers:
			list = append(list, p)
		case o.unit:
		case !o.race || slices.ContainsFunc(loops, func(l string) bool { return strings.HasSuffix(p, l) }):
			list = append(list, p)
		}
	}
	longestFirst(list)
	return list
}

// programsEnv is where tests on API servers look for the folder of Fleet's programs. Without it
// each package asks go whether something has changed.
const programsEnv = "FLEET_TEST_PROGRAMS"

// buildPrograms brings Fleet's programs up to date and returns their folder.
func buildPrograms(ctx context.Context) (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		return "", err
	}
	return builder.Fleet(ctx)
}

func run(ctx context.Context, o options) error {
	if err := o.checkSpace(ctx); err != nil {
		return err
	}
	programs := ""
	if !o.unit {
		fmt.Println("test: Kubernetes for the tests")
		began := time.Now()
		if _, err := kubebin.Ensure(ctx, os.Stdout); err != nil {
			return err
		}
		printTook("Kubernetes", began)
		began = time.Now()
		var err error
		if programs, err = buildPrograms(ctx); err != nil {
			return err
		}
		printTook("Fleet's programs", began)
	}
	all, err := o.list(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	tests := newReport(os.Stdout, o.v)
	failed := o.goTest(ctx, o.packages(all), programs, tests)
	printTook("tests", began)
	if ctx.Err() != nil {
		return failed
	}
	if err := o.checkSkips(tests); err != nil && failed == nil {
		failed = err
	}
	return failed
}

// list returns all packages, with the race detector those in which it can find something.
func (o options) list(ctx context.Context) ([]string, error) {
	if o.race {
		return concurrentPackages(ctx)
	}
	list, err := exec.CommandContext(ctx, "go", "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return strings.Fields(string(list)), nil
}

// printTook prints how long a part of the run took.
func printTook(part string, began time.Time) {
	fmt.Printf("test: %s took %s\n", part, time.Since(began).Round(time.Second))
}

// checkSkips compares the skipped tests with the list of this kind of run. A part of
// a run has none.
func (o options) checkSkips(tests *report) error {
	if o.run != "" || o.unit || o.soak {
		fmt.Printf("test: %d tests skipped\n", len(tests.skipped))
		return nil
	}
	file, list := "skipped.txt", skippedList
	if o.race {
		file, list = "skipped_race.txt", skippedRaceList
	}
	var got []string
	for _, id := range tests.skipped {
		got = append(got, strings.TrimPrefix(id.String(), module+"/"))
	}
	return checkSkips(file, parseSkips(list), got, o.strict)
}

// goTest tests packages with the programs of a folder, and reports the tests. What only
// debuggers read is left out of the test programs: linking takes half the time. So is the
// path of the clone: every clone finds in the build cache what another one has compiled.
// Vet runs in make lint.
func (o options) goTest(ctx context.Context, packages []string, programs string, tests *report) error {
	args := append([]string{"test", "-json", "-count=1", "-timeout=60m", "-vet=off", "-trimpath", "-ldflags=-s"}, o.flags()...)
	fmt.Println("test: go", strings.Join(args, " "), "for", len(packages), "packages")
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), o.env()...)
	if programs != "" {
		cmd.Env = append(cmd.Env, programsEnv+"="+programs)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	err = errors.Join(tests.read(stdout), cmd.Wait())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // of all processes that have ended
	fmt.Printf("test: used %s of processor time on %d processors\n", used.Round(time.Second), runtime.NumCPU())
	return err
}

// env is what go test gets besides our own environment. Without cgo the tests
// share compiled packages with the sandbox's programs; the race detector needs
// it.
func (o options) env() []string {
	cgo := "CGO_ENABLED=0"
	if o.race {
		cgo = "CGO_ENABLED=1"
	}
	env := []string{growHeaps, cgo}
	if o.soak {
		env = append(env, "FLEET_TEST_SOAK=1")
	}
	return env
}

func (o options) flags() []string {
	var flags []string
	if !o.unit {
		flags = append(flags, fmt.Sprintf("-p=%d", parallel(runtime.NumCPU())))
	}
	if o.run != "" {
		flags = append(flags, "-run="+o.run)
	}
	if o.race {
		flags = append(flags, "-race")
	}
	return flags
}
