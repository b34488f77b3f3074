package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// measureRest installs more and more releases, watches the agent while nothing
// happens, and starts it again with the most of them.
func (b *bench) measureRest(ctx context.Context, w *world) error {
	measure.Title("At rest")
	measure.Row("releases of 10 objects", "anonymous", "resident", "CPU a minute", "requests a minute", "of them neither lease, sign of life nor watch", "peak while they were installed", "installed in")
	measure.Row("---:", "---:", "---:", "---:", "---:", "---", "---:", "---:")
	have := 0
	for _, n := range b.releases {
		if err := b.restWith(ctx, w, have, n); err != nil {
			return fmt.Errorf("%d releases: %w", n, err)
		}
		have = n
	}
	return b.measureStart(ctx, w, have)
}

// restWith installs the releases from have up to n, and then measures rest.
func (b *bench) restWith(ctx context.Context, w *world, have, n int) error {
	install, err := w.agent.meter()
	if err != nil {
		return err
	}
	begin, took, err := w.deploy(ctx, names("rest", have, n), tenObjects)
	if err != nil {
		return err
	}
	installed, err := install()
	if err != nil {
		return err
	}
	if err := w.quiet(ctx, begin); err != nil {
		return err
	}
	used, list, err := b.watchRest(ctx, w)
	if err != nil {
		return err
	}
	measure.Row(append([]string{fmt.Sprint(n)}, append(atRest(used, list, b.rest),
		measure.MiB(installed.memory.Peak), fmt.Sprintf("%s for %d", measure.Seconds(took), n-have))...)...)
	return w.agent.keepProfile(ctx, "heap", fmt.Sprintf("rest-%d.heap", n))
}

// watchRest lets time pass, and measures what the agent needs meanwhile.
func (b *bench) watchRest(ctx context.Context, w *world) (usage, []harness.Request, error) {
	rest, err := w.agent.meter()
	if err != nil {
		return usage{}, nil, err
	}
	begin := time.Now()
	if err := kube.Sleep(ctx, b.rest); err != nil {
		return usage{}, nil, err
	}
	used, err := rest()
	if err != nil {
		return usage{}, nil, err
	}
	list, err := w.requests(begin)
	return used, list, err
}

// atRest are the columns about an agent at rest.
func atRest(used usage, list []harness.Request, d time.Duration) []string {
	perMinute := float64(time.Minute) / float64(d)
	return []string{
		measure.MiB(used.memory.Anonymous), measure.MiB(used.memory.All),
		fmt.Sprintf("%.2f s", used.cpu.Seconds()*perMinute),
		fmt.Sprintf("%.1f", float64(len(list))*perMinute), counted(others(list)),
	}
}

// measureStart kills the agent and measures its new start, with nothing to do.
func (b *bench) measureStart(ctx context.Context, w *world, n int) error {
	w.agent.kill()
	begin := time.Now()
	if err := w.agent.start(); err != nil {
		return err
	}
	last, err := w.settle(ctx, begin)
	if err != nil {
		return err
	}
	cpu, err := measure.CPU(w.agent.pid())
	if err != nil {
		return err
	}
	memory, err := measure.Memory(w.agent.pid())
	if err != nil {
		return err
	}
	list, err := w.requests(begin)
	if err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("Start with %d releases and nothing to do", n))
	measure.Row("last request after", "CPU", "peak", "requests", "requests per release", "writes other than signs of life", "what")
	measure.Row("---:", "---:", "---:", "---:", "---:", "---", "---")
	var writes []harness.Request
	for _, r := range others(list) {
		if r.Writes() {
			writes = append(writes, r)
		}
	}
	measure.Row(measure.Seconds(last.Sub(begin)), measure.Seconds(cpu), measure.MiB(memory.Peak),
		fmt.Sprint(len(list)), fmt.Sprintf("%.1f", float64(len(list))/float64(n)), counted(writes), counted(list))
	if err := w.quiet(ctx, last); err != nil {
		return err
	}
	used, list, err := b.watchRest(ctx, w)
	if err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("At rest with %d releases, after that start", n))
	measure.Row("anonymous", "resident", "CPU a minute", "requests a minute", "of them neither lease, sign of life nor watch")
	measure.Row("---:", "---:", "---:", "---:", "---")
	measure.Row(atRest(used, list, b.rest)...)
	return w.agent.keepProfile(ctx, "heap", "start.heap")
}
