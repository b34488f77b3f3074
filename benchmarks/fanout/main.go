// Package fanout measures the fan-out of a manager: one Bundle to thousands of
// clusters, thousands of reports back. etcd and the API server are real; agents
// are played by this process, each with a watch of its own and the requests
// that a real one sends. It asserts nothing.
//
//	go run ./benchmarks fanout
//	go run ./benchmarks fanout -scenarios 500x1,500x1+values
//	go run ./benchmarks fanout -manager 'path/of/manager --kubeconfig={kubeconfig}'
//
// Every figure stands beside what the same API server can do at best: the
// floor, the same mix of requests sent by this process alone.
package fanout

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// A scenario is one fleet and what is deployed to it.
type scenario struct {
	clusters, bundles int
	objects           int  // per Bundle
	values            bool // half of the clusters have values of their own
	limit             bool // maxUnavailable: 10%
}

func (s scenario) pairs() int { return s.clusters * s.bundles }

// String is as parseScenario reads it.
func (s scenario) String() string {
	text := fmt.Sprintf("%dx%d", s.clusters, s.bundles)
	if s.values {
		text += "+values"
	}
	if s.limit {
		text += "+limit"
	}
	if s.objects != defaultObjects {
		text += fmt.Sprintf("+objects=%d", s.objects)
	}
	return text
}

// defaultObjects is how many objects a Bundle holds.
const defaultObjects = 5

var errScenario = errors.New("want CLUSTERSxBUNDLES, with +values, +limit or +objects=N")

// parseScenario reads "5000x1+values+limit+objects=50".
func parseScenario(text string) (scenario, error) {
	s := scenario{objects: defaultObjects}
	parts := strings.Split(text, "+")
	if n, err := fmt.Sscanf(parts[0], "%dx%d", &s.clusters, &s.bundles); n != 2 || err != nil || s.clusters < 1 || s.bundles < 1 {
		return s, fmt.Errorf("scenario %q: %w", text, errScenario)
	}
	for _, part := range parts[1:] {
		switch part {
		case "values":
			s.values = true
		case "limit":
			s.limit = true
		default:
			if _, err := fmt.Sscanf(part, "objects=%d", &s.objects); err != nil || s.objects < 1 {
				return s, fmt.Errorf("scenario %q: %w", text, errScenario)
			}
		}
	}
	return s, nil
}

// scenarios are what is measured where nothing else is asked for.
const scenarios = "500x1,1000x1,3000x1,5000x1,200x50,1000x1+values,1000x1+limit,1000x1+objects=50"

type settings struct {
	scenarios []scenario
	manager   string        // command line; empty: this project's
	quiet     time.Duration // how long the fleet with failures is watched
	timeout   time.Duration // for one phase
	programs  string
	workers   int
}

func parseOptions(args []string) (settings, error) {
	o := settings{}
	fs := flag.NewFlagSet("fanout", flag.ContinueOnError)
	list := fs.String("scenarios", scenarios, "CLUSTERSxBUNDLES, separated by commas; +values: half of the pairs have values; +limit: maxUnavailable 10%; +objects=N")
	fs.StringVar(&o.manager, "manager", "", "command `line` of the manager to measure; {kubeconfig} and {namespace} are replaced (default: fleet-controller of this clone)")
	fs.DurationVar(&o.quiet, "quiet", time.Minute, "how long to watch the fleet while 5 % fail")
	fs.DurationVar(&o.timeout, "patience", 15*time.Minute, "how long a phase may take")
	fs.StringVar(&o.programs, "fleet-bin", "", "`folder` with this project's programs (default: they are built)")
	fs.IntVar(&o.workers, "clients", 32, "clients that measure the floor")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*list, ",") {
		s, err := parseScenario(text)
		if err != nil {
			return o, err
		}
		o.scenarios = append(o.scenarios, s)
	}
	return o, nil
}

// Main is the main function of this suite; it reads the command line.
func Main() { measure.Main("fanout", parseOptions, run) }

// run measures all scenarios, each on an API server of its own.
func run(ctx context.Context, o settings) (err error) {
	g, err := measure.Prepare(ctx, "fanout")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if o.manager == "" {
		if o.programs, err = g.Programs(ctx, o.programs); err != nil {
			return err
		}
		o.manager = filepath.Join(o.programs, "fleet-controller") +
			" --roles=controller --kubeconfig={kubeconfig} --namespace={namespace} --identity=bench"
	}
	for i, s := range o.scenarios {
		b := &bench{settings: o, scenario: s, dir: filepath.Join(g.Dir, fmt.Sprint(i)), charts: filepath.Join(g.Root, "charts")}
		if err := b.run(ctx, g.Kubernetes); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// A bench is the measurement of one scenario.
type bench struct {
	settings
	scenario

	dir     string
	charts  string
	hub     *hub
	agents  *agents
	manager *manager
	floors  map[string]time.Duration // by phase
}

func (b *bench) run(ctx context.Context, binary string) (err error) {
	c, err := cluster.Start(ctx, cluster.Config{Name: "hub", Dir: filepath.Join(b.dir, "hub"), Binary: binary})
	if err != nil {
		return err
	}
	defer c.Stop()
	if b.hub, err = newHub(c); err != nil {
		return err
	}
	if err := b.hub.prepare(ctx, b.charts, b.scenario); err != nil {
		return err
	}
	if b.agents, err = startAgents(ctx, b.hub, b.scenario); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.agents.stop()) }()
	if err := b.measureFloors(ctx); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if b.manager, err = startManager(ctx, b.hub, b.settings.manager, b.dir); err != nil {
		return err
	}
	defer func() { b.manager.kill() }()
	if err := b.settle(ctx); err != nil { // starting is measured by itself
		return err
	}
	heading()
	for _, p := range phases() {
		if err := b.phase(ctx, p); err != nil {
			return fmt.Errorf("%s: %w (log of the manager: %s)", p.name, err, b.manager.lastWords())
		}
	}
	return nil
}

// first are the first n names of a list, for messages.
func first(names []string, n int) string {
	slices.Sort(names)
	if len(names) > n {
		return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	return strings.Join(names, ", ")
}
