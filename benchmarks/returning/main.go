// Package returning measures how soon a fleet is current again after it has lost
// its manager: a thousand agents' connections, as they are, each with a credential
// of its own, against a real API server, through a proxy that is cut and healed for
// all of them at one moment. What an agent does with Helm is left out. It asserts
// nothing.
//
//	go run ./benchmarks returning
//	go run ./benchmarks returning -agents 200 -faults Lost -outages 2s,90s
package returning

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

type settings struct {
	agents  int
	faults  []wire.Fault
	outages []time.Duration
	timeout time.Duration
}

var errUsage = errors.New("wrong usage")

func parseOptions(args []string) (settings, error) {
	o := settings{}
	fs := flag.NewFlagSet("returning", flag.ContinueOnError)
	faults := fs.String("faults", "Refused,Silent,Lost", "what happens to the link: Refused, Reset, Silent, Lost")
	outages := fs.String("outages", "5s,90s", "for how long")
	fs.IntVar(&o.agents, "agents", 1000, "how many")
	fs.DurationVar(&o.timeout, "patience", 5*time.Minute, "how long they may take")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for _, name := range strings.Split(*faults, ",") {
		all := []wire.Fault{wire.Refused, wire.Reset, wire.Silent, wire.Lost}
		i := slices.IndexFunc(all, func(f wire.Fault) bool { return f.String() == name })
		if i < 0 {
			return o, fmt.Errorf("%w: no fault %q", errUsage, name)
		}
		o.faults = append(o.faults, all[i])
	}
	for _, text := range strings.Split(*outages, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			return o, fmt.Errorf("%w: -outages: %w", errUsage, err)
		}
		o.outages = append(o.outages, d)
	}
	if o.agents < 1 {
		return o, fmt.Errorf("%w: -agents must be above 0", errUsage)
	}
	return o, nil
}

// Main is the main function of this suite; it reads the command line.
func Main() { measure.Main("returning", parseOptions, run) }

func run(ctx context.Context, o settings) (err error) {
	g, err := measure.Prepare(ctx, "returning")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	c, err := cluster.Start(ctx, cluster.Config{Name: "hub", Dir: filepath.Join(g.Dir, "hub"), Binary: g.Kubernetes})
	if err != nil {
		return err
	}
	defer c.Stop()
	at, err := url.Parse(c.URL())
	if err != nil {
		return fmt.Errorf("address of the hub: %w", err)
	}
	tcpProxy, err := wire.NewTCPProxy(at.Host)
	if err != nil {
		return err
	}
	defer tcpProxy.Close()
	f, err := newFleet(ctx, c, tcpProxy, o.agents)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.current(ctx, o.timeout); err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("%d agents return", o.agents))
	measure.Row("link", "outage", "first", "median", "99 of 100", "last", "failed check-ins", "429")
	measure.Row("---", "---", "---", "---", "---", "---", "---", "---")
	for _, fault := range o.faults {
		for _, outage := range o.outages {
			if err := measureReturn(ctx, f, fault, outage, o.timeout); err != nil {
				return fmt.Errorf("%s for %s: %w", fault, outage, err)
			}
		}
	}
	return nil
}

// idle is how long the agents rest before their link is cut: connections that were
// used a moment ago are found dead later than others.
const idle = 15 * time.Second

// measureReturn cuts the link of all agents, gives each something new to do, heals
// it, and takes the time until the last of them has reported that it is done.
func measureReturn(ctx context.Context, f *fleetOf, fault wire.Fault, outage, timeout time.Duration) error {
	if err := kube.Sleep(ctx, idle); err != nil {
		return err
	}
	if err := f.tcpProxy.Set(fault); err != nil {
		return err
	}
	began := time.Now()
	if err := f.order(ctx); err != nil {
		return err
	}
	if err := kube.Sleep(ctx, outage-time.Since(began)); err != nil {
		return err
	}
	lasted := time.Since(began)
	if err := f.tcpProxy.Set(wire.None); err != nil {
		return err
	}
	healed := time.Now()
	f.failures.Store(0)
	if err := f.current(ctx, timeout); err != nil {
		return err
	}
	failures := f.failures.Load()
	var took []time.Duration
	for _, a := range f.agents {
		took = append(took, max(0, a.doneAt().Sub(healed)))
	}
	slices.Sort(took)
	asked, err := harness.ReadAudit("hub", f.cluster.AuditLog(), healed)
	if err != nil {
		return err
	}
	throttled := 0
	for _, r := range asked {
		if r.Code == 429 && strings.HasPrefix(r.Agent, userAgent) {
			throttled++
		}
	}
	at := func(share float64) string { return measure.Seconds(took[int(share*float64(len(took)-1))]) }
	measure.Row(fault.String(), measure.Seconds(lasted), at(0), at(.5), at(.99), at(1), fmt.Sprint(failures), fmt.Sprint(throttled))
	return nil
}
