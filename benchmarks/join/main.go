// Package join measures how a fleet comes in, and what is left of it when it
// goes: agents that all register at one moment with one token. The API server and
// the manager are real, with the rights of production; of the agents it plays what
// they send to their manager. It asserts nothing.
//
//	go run ./benchmarks join
//	go run ./benchmarks join -agents 50
package join

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

type settings struct {
	agents   []int
	timeout  time.Duration
	programs string
}

var errUsage = errors.New("wrong usage")

func parseOptions(args []string) (settings, error) {
	o := settings{}
	fs := flag.NewFlagSet("join", flag.ContinueOnError)
	list := fs.String("agents", "500", "how `many` register at once; several numbers, separated by commas, are measured one after the other")
	fs.DurationVar(&o.timeout, "patience", 15*time.Minute, "how long they may take to come, and to go")
	fs.StringVar(&o.programs, "fleet-bin", "", "`folder` with this project's programs (default: they are built)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for _, text := range slices.Collect(split(*list)) {
		n := 0
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < 1 || fmt.Sprint(n) != text {
			return o, fmt.Errorf("%w: -agents: %q is not a number above 0", errUsage, text)
		}
		o.agents = append(o.agents, n)
	}
	return o, nil
}

// Main is the main function of this suite; it reads the command line.
func Main() { measure.Main("join", parseOptions, run) }

// run measures all sizes, each on an API server of its own.
func run(ctx context.Context, o settings) (err error) {
	klog.LogToStderr(false) // what fails comes back as an error
	klog.SetOutput(io.Discard)
	g, err := measure.Prepare(ctx, "join")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if o.programs, err = g.Programs(ctx, o.programs); err != nil {
		return err
	}
	for i, n := range o.agents {
		c, err := cluster.Start(ctx, cluster.Config{Name: "hub", Dir: filepath.Join(g.Dir, fmt.Sprint(i)), Binary: g.Kubernetes})
		if err != nil {
			return err
		}
		err = measureFleet(ctx, o, c, n, filepath.Join(g.Dir, fmt.Sprintf("manager-%d", i)))
		c.Stop()
		if err != nil {
			return fmt.Errorf("%d agents: %w", n, err)
		}
	}
	return nil
}

// measureFleet lets agents come, and deletes their Clusters.
func measureFleet(ctx context.Context, o settings, c *cluster.Cluster, n int, dir string) (err error) {
	h, err := newHub(ctx, c)
	if err != nil {
		return err
	}
	m, err := startManager(ctx, h, filepath.Join(o.programs, "fleet-controller"), dir)
	if err != nil {
		return err
	}
	defer m.Kill()
	limited, cancel := context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	defer cancel()
	b, err := h.token(limited)
	if err != nil {
		return fmt.Errorf("token: %w (log of the manager: %s)", err, m.LastWords())
	}
	before, err := h.census(limited)
	if err != nil {
		return err
	}
	f := &fleetOf{hub: h, boot: b}
	if err := f.come(limited, n); err != nil {
		return fmt.Errorf("register: %w (log of the manager: %s)", err, m.LastWords())
	}
	if err := f.showArrival(limited, before, m); err != nil {
		return err
	}
	limited, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	defer cancel()
	return f.showDeparture(limited, before)
}

var errTimeout = errors.New("not in time")

// come lets n agents register at one moment.
func (f *fleetOf) come(ctx context.Context, n int) error {
	for i := range n {
		a, err := f.newAgent(i)
		if err != nil {
			return err
		}
		f.agents = append(f.agents, a)
	}
	f.began = time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, a := range f.agents {
		group.Go(func() error { return a.register(ctx) })
	}
	return group.Wait()
}

// showArrival prints how soon the agents were in, and what that has cost.
func (f *fleetOf) showArrival(ctx context.Context, before census, m *measure.Manager) error {
	if err := f.untilNamed(ctx); err != nil {
		return err
	}
	n := float64(len(f.agents))
	asked, err := harness.ReadAudit("hub", f.hub.AuditLog(), f.began)
	if err != nil {
		return err
	}
	after, err := f.hub.census(ctx)
	if err != nil {
		return err
	}
	memory, err := measure.Memory(m.PID())
	if err != nil {
		return err
	}
	spent, err := measure.CPU(m.PID())
	if err != nil {
		return err
	}
	at := func(times []time.Duration, share float64) string {
		return measure.Seconds(times[int(share*float64(len(times)-1))])
	}
	got, in := f.times(func(a *agent) time.Time { return a.got }), f.times(func(a *agent) time.Time { return a.in })
	measure.Title(fmt.Sprintf("%d agents register at once", len(f.agents)))
	measure.Row("what", "")
	measure.Row("---", "---")
	measure.Row("credential: first, median, last", at(got, 0)+", "+at(got, .5)+", "+at(got, 1))
	measure.Row("checked in with it: median, last", at(in, .5)+", "+at(in, 1))
	by, refused := countRequests(asked)
	total := 0
	for _, who := range []string{whoAgent, whoManager, whoKubernetes} {
		total += by[who]
		measure.Row("API requests per cluster: "+who, fmt.Sprintf("%.1f", float64(by[who])/n))
	}
	measure.Row("API requests per cluster", fmt.Sprintf("%.1f", float64(total)/n))
	measure.Row("turned away (429)", fmt.Sprint(refused))
	measure.Row("objects per cluster", fmt.Sprintf("%.2f: %s", float64(after.minus(before).total())/n, after.minus(before).per(n)))
	measure.Row("manager: processor time", measure.Seconds(spent))
	measure.Row("manager: memory, resident", measure.MiB(memory.All)+", at most "+measure.MiB(memory.Peak))
	return nil
}

// showDeparture deletes all Clusters, and prints what is left when nothing goes any
// more.
func (f *fleetOf) showDeparture(ctx context.Context, before census) error {
	began := time.Now()
	if err := f.hub.deleteClusters(ctx); err != nil {
		return err
	}
	var left census
	took := time.Duration(0)
	for last := time.Now(); ; {
		now, err := f.hub.census(ctx)
		if err != nil {
			return err
		}
		if rest := now.minus(before); !rest.same(left) {
			left, took, last = rest, time.Since(began), time.Now()
		}
		if left.total() == 0 || time.Since(last) > settled {
			break
		}
		if err := kube.Sleep(ctx, time.Second); err != nil {
			return context.Cause(ctx)
		}
	}
	measure.Title("Their Clusters are deleted")
	measure.Row("what", "")
	measure.Row("---", "---")
	measure.Row("objects left", fmt.Sprintf("%d %s", left.total(), left))
	measure.Row("after", measure.Seconds(took))
	return nil
}

// settled is for how long nothing may change until nothing is expected to.
const settled = 90 * time.Second
