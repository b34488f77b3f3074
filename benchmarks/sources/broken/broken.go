// Package broken measures a manager whose sources fail: GitRepos, HelmOps and ImageScans,
// a third of them on broken servers, while webhooks arrive all the time. The healthy ones
// have to be on time, memory has to stay flat, and no object may say that it is Ready
// although its source was never read.
package broken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// Options are the sizes. A fleet needs one downstream cluster, and a block of ports.
type Options struct {
	GitRepos, HelmOps, ImageScans int
	Webhooks                      int           // a second
	Servers                       int           // about a third of them broken
	Time                          time.Duration // of the measurement
}

const (
	// slack is how much later than its interval an object may have what is new.
	slack = 5 * time.Second
	// changeAfter is the least time between two changes of a source; the most is twice that.
	changeAfter = 15 * time.Second
	// breakAfter is when servers break that were healthy.
	breakAfter = 2 * time.Minute
	// readLimit is how long it may take until every healthy source was read first.
	readLimit = 5 * time.Minute
)

// Run measures and prints tables.
func Run(ctx context.Context, f *fleet.Fleet, o Options) error {
	w, err := newWorld(ctx, f, o)
	if w != nil {
		defer w.close()
	}
	if err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("%d GitRepos, %d HelmOps, %d ImageScans on %d servers, a third of them broken, and %d webhooks a second",
		o.GitRepos, o.HelmOps, o.ImageScans, len(w.servers), o.Webhooks))
	begin := time.Now()
	if err := w.create(ctx); err != nil {
		return err
	}
	measure.Row("what", "time")
	measure.Row("---", "---:")
	measure.Row("all objects made after", measure.Seconds(time.Since(begin)))
	if err := w.settled(ctx, readLimit); err != nil {
		return err
	}
	measure.Row("all healthy GitRepos and HelmOps read after", measure.Seconds(time.Since(begin)))
	if err := w.measure(ctx); err != nil {
		return err
	}
	w.print()
	return ctx.Err()
}

// measure publishes and sends webhooks for the time of the measurement, breaks servers
// meanwhile, and prints each minute what the processes need.
func (w *world) measure(ctx context.Context) error {
	s := newSender(w)
	p, err := newProcesses(w.fleet)
	if err != nil {
		return err
	}
	running, stop := context.WithTimeout(ctx, w.options.Time)
	defer stop()
	before := w.counts()
	w.mu.Lock()
	w.counting = true
	w.mu.Unlock()
	var group sync.WaitGroup
	for _, source := range w.sources {
		if source.server.kind == healthy {
			group.Go(func() { w.publish(running, source, s.announce) })
		}
	}
	if w.options.Webhooks > 0 {
		group.Go(func() { s.run(running) })
	}
	time.AfterFunc(min(breakAfter, w.options.Time/3), w.breakServers)
	for pause(running, min(time.Minute, w.options.Time/4)) {
		if err := p.sample(); err != nil {
			stop()
			group.Wait()
			return err
		}
	}
	if err := p.sample(); err != nil {
		return err
	}
	group.Wait()
	w.late()
	p.print()
	w.printRequests(before, w.counts())
	s.print()
	return ctx.Err()
}

// late notes the healthy sources whose newest was not seen at the end, if that is too late.
func (w *world) late() {
	for _, s := range w.sources {
		if since, waits := s.waiting(); waits && time.Since(since) > s.deadline() {
			w.note(s, time.Since(since))
		}
	}
}
