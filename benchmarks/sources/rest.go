package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// settle is how long the fleet is left alone before it is watched at rest.
const settle = 30 * time.Second

// atRest prints what the fleet needs when nothing happens.
func (b *bench) atRest(ctx context.Context) error {
	pause(ctx, settle)
	begin := time.Now()
	pause(ctx, b.rest)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := b.memory(); err != nil {
		return err
	}
	return printRequests(b.Fleet, begin, b.rest, fmt.Sprintf("API requests at rest, per minute over %s, agents check in every minute", b.rest))
}

// memory prints the resident memory of Fleet's own processes.
func (b *bench) memory() error {
	measure.Title("Resident memory at rest")
	measure.Row("process", "all", "anonymous")
	measure.Row("---", "---:", "---:")
	var all, anonymous int
	for _, p := range b.Parts() {
		if !own(p.Name) || p.PID == 0 {
			continue
		}
		m, err := measure.Memory(p.PID)
		if err != nil {
			return err
		}
		all, anonymous = all+m.All, anonymous+m.Anonymous
		measure.Row(p.Name+" of "+p.Cluster, measure.MiB(m.All), measure.MiB(m.Anonymous))
	}
	measure.Row("together", measure.MiB(all), measure.MiB(anonymous))
	return nil
}

func own(part string) bool {
	return slices.Contains([]string{"fleet-controller", "gitjob", "helmops", "fleet-agent"}, part)
}

// printRequests prints what Fleet's processes have asked of the API servers
// in a window, per minute.
func printRequests(f *fleet.Fleet, begin time.Time, window time.Duration, text string) error {
	measure.Title(text)
	measure.Row("API server", "client", "requests", "what")
	measure.Row("---", "---", "---:", "---")
	total := 0
	for _, m := range f.Members() {
		list, err := harness.RequestsOf(m.Cluster, begin)
		if err != nil {
			return err
		}
		clients := map[string]map[string]int{}
		for _, r := range list {
			if !r.Ours() || r.At.After(begin.Add(window)) {
				continue
			}
			total++
			if clients[r.Agent] == nil {
				clients[r.Agent] = map[string]int{}
			}
			clients[r.Agent][r.Verb+" "+r.What()]++
		}
		for _, client := range slices.Sorted(maps.Keys(clients)) {
			sum := 0
			var what []string
			for _, kind := range slices.Sorted(maps.Keys(clients[client])) {
				sum += clients[client][kind]
				what = append(what, fmt.Sprintf("%s %s", kind, perMinute(clients[client][kind], window)))
			}
			measure.Row(m.Name, client, perMinute(sum, window), strings.Join(what, ", "))
		}
	}
	measure.Row("together", "", perMinute(total, window), "")
	return nil
}

func perMinute(n int, d time.Duration) string { return fmt.Sprintf("%.1f", float64(n)/d.Minutes()) }
