package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

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
	return b.requests(begin)
}

// memory prints the resident memory of Fleet's own processes.
func (b *bench) memory() error {
	title("Resident memory at rest")
	row("process", "all", "anonymous")
	row("---", "---:", "---:")
	var all, anonymous int
	for _, p := range b.Parts() {
		if !own(p.Name) || p.PID == 0 {
			continue
		}
		m, err := memoryOf(p.PID)
		if err != nil {
			return err
		}
		all, anonymous = all+m.all, anonymous+m.anonymous
		row(p.Name+" of "+p.Cluster, mib(m.all), mib(m.anonymous))
	}
	row("together", mib(all), mib(anonymous))
	return nil
}

func own(part string) bool {
	return slices.Contains([]string{"fleet-controller", "gitjob", "fleet-agent"}, part)
}

// A footprint is resident memory in KiB.
type footprint struct{ all, anonymous int }

func memoryOf(pid int) (footprint, error) {
	var f footprint
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return f, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		for key, field := range map[string]*int{"VmRSS:": &f.all, "RssAnon:": &f.anonymous} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				if _, err := fmt.Sscanf(rest, "%d kB", field); err != nil {
					return f, fmt.Errorf("read memory: %q: %w", line, err)
				}
			}
		}
	}
	return f, nil
}

// requests prints what Fleet's processes have asked of the API servers since
// a moment, per minute.
func (b *bench) requests(since time.Time) error {
	title(fmt.Sprintf("API requests at rest, per minute over %s, agents check in every minute", b.rest))
	row("API server", "client", "requests", "what")
	row("---", "---", "---:", "---")
	total := 0
	for _, m := range b.Members() {
		list, err := harness.ReadAudit(m.Name, m.Cluster.AuditLog(), since)
		if err != nil {
			return err
		}
		clients := map[string]map[string]int{}
		for _, r := range list {
			if !r.Ours() || r.At.After(since.Add(b.rest)) {
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
				what = append(what, fmt.Sprintf("%s %s", kind, perMinute(clients[client][kind], b.rest)))
			}
			row(m.Name, client, perMinute(sum, b.rest), strings.Join(what, ", "))
		}
	}
	row("together", "", perMinute(total, b.rest), "")
	return nil
}

func perMinute(n int, d time.Duration) string { return fmt.Sprintf("%.1f", float64(n)/d.Minutes()) }
