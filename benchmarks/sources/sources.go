package sources

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// What the sources part polls with.
const (
	interval   = 15 * time.Second // the default of a GitRepo
	jitter     = interval / 10    // at most, at random on top of it
	slowest    = time.Minute      // a broken remote is asked again after this, and the jitter
	answerTime = 30 * time.Second // how long gitjob waits for a list of references
)

// sources watches 300 GitRepos on 30 remotes, 10 of them broken, while nothing
// happens, then while commits are pushed to good remotes, and then once more
// without the broken ones.
func (e *env) sources(ctx context.Context) error {
	cfg, err := e.fleet(ctx, "sources")
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer f.Stop()
	remotes, err := e.openRemotes()
	if err != nil {
		return err
	}
	defer remotes.close()
	w := newWatched(ctx, f, remotes)
	defer w.stop()
	measure.Title(fmt.Sprintf("%d GitRepos on %d remotes, %d of them broken, polled every %s", e.sourcesRepos, len(remotes.list), len(remotes.broken()), interval))
	measure.Row("what", "time")
	measure.Row("---", "---:")
	begin := time.Now()
	if err := w.create(ctx, e.sourcesRepos); err != nil {
		return err
	}
	measure.Row("all made after", measure.Seconds(time.Since(begin)))
	if err := w.until(ctx, "the good ones are read", w.read); err != nil {
		return err
	}
	measure.Row("all of the good ones read after", measure.Seconds(time.Since(begin)))
	if err := w.until(ctx, "the broken ones say so", w.complaining); err != nil {
		return err
	}
	measure.Row("all of the broken ones say what is wrong after", measure.Seconds(time.Since(begin)))
	if err := w.quiet(ctx, e.sourcesTime); err != nil {
		return err
	}
	return w.disturbed(ctx, max(1, e.runs/5))
}

// managers are the processes of the manager.
var managers = []string{"gitjob", "fleet-controller"}

// A load is what a process has needed up to a moment.
type load struct {
	pid int
	cpu time.Duration
}

// startLoad notes what the manager's processes have needed so far, and resets
// their peaks of memory.
func startLoad(f *fleet.Fleet) (map[string]load, error) {
	loads := map[string]load{}
	for _, name := range managers {
		pid, err := partPID(f, name)
		if err != nil {
			return nil, err
		}
		if err := measure.ResetPeak(pid); err != nil {
			return nil, err
		}
		cpu, err := measure.CPU(pid)
		if err != nil {
			return nil, err
		}
		loads[name] = load{pid, cpu}
	}
	return loads, nil
}

// quiet counts what is asked and needed while nothing happens.
func (w *watched) quiet(ctx context.Context, d time.Duration) error {
	pause(ctx, settle)
	w.complaints()
	begin, before := time.Now(), w.remotes.counts()
	loads, err := startLoad(w.fleet)
	if err != nil {
		return err
	}
	pause(ctx, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	window := time.Since(begin)
	measure.Title(fmt.Sprintf("Requests that the remotes get in %s, nothing new", d))
	lists := w.printAsked(window, before, w.remotes.counts())
	measure.Row("GitRepos of good remotes that say meanwhile that theirs cannot be reached", "", "", "", fmt.Sprint(w.complaints()), "0", "")
	measure.Title(fmt.Sprintf("What that costs in %s", d))
	measure.Row("process", "CPU", "of one processor", "CPU per list of references", "resident", "of that anonymous", "peak")
	measure.Row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, name := range managers {
		cpu, err := measure.CPU(loads[name].pid)
		if err != nil {
			return err
		}
		m, err := measure.Memory(loads[name].pid)
		if err != nil {
			return err
		}
		used, each := cpu-loads[name].cpu, ""
		if name == "gitjob" && lists > 0 {
			each = measure.Milliseconds(used / time.Duration(lists))
		}
		measure.Row(name, measure.Seconds(used), measure.Share(used.Seconds(), window.Seconds()), each, measure.MiB(m.All), measure.MiB(m.Anonymous), measure.MiB(m.Peak))
	}
	return printRequests(w.fleet, begin, window, fmt.Sprintf("API requests meanwhile, per minute over %s", d))
}

// printAsked prints what each group of remotes was asked between two counts
// and returns how many lists of references were asked for.
func (w *watched) printAsked(window time.Duration, before, after map[string]asked) int {
	measure.Row("remotes", "how many", "GitRepos", "branches", "lists of references", "expected", "fetches")
	measure.Row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	var all asked
	for _, g := range w.remotes.groups() {
		var sum asked
		branches, repos := 0, 0
		for _, r := range g {
			sum = sum.plus(after[r.name].minus(before[r.name]))
			branches, repos = branches+r.branches(), repos+len(r.repos)
		}
		all = all.plus(sum)
		counted := fmt.Sprint(sum.lists)
		if g[0].kind == refused {
			counted = "cannot be counted"
		}
		measure.Row(g[0].group(), fmt.Sprint(len(g)), fmt.Sprint(repos), fmt.Sprint(branches), counted,
			polls(window, g[0].every(), len(g)).String(), fmt.Sprint(sum.fetches))
	}
	measure.Row("together", "", "", "", fmt.Sprint(all.lists), "", fmt.Sprint(all.fetches))
	return all.lists
}

// disturbed measures how soon commits to good remotes are seen, beside the
// broken ones and without them.
func (w *watched) disturbed(ctx context.Context, rounds int) error {
	measure.Title(fmt.Sprintf("From git push until all GitRepos that follow the branch have read the commit, %d commits to each good remote", rounds))
	measure.Row("remotes", "median", "largest", "all, sorted (s)")
	measure.Row("---", "---:", "---:", "---")
	series := func(name string) error {
		times := map[bool][]time.Duration{}
		for range rounds {
			if err := w.round(ctx, times); err != nil {
				return err
			}
		}
		for _, mixed := range []bool{false, true} {
			where := "on a host of their own"
			if mixed {
				where = "on a host with broken ones"
			}
			measure.Row(where+name, measure.Seconds(measure.Median(times[mixed])), measure.Seconds(slices.Max(times[mixed])), measure.List(times[mixed]))
		}
		return nil
	}
	if err := series(""); err != nil {
		return err
	}
	if err := w.removeBroken(ctx); err != nil {
		return err
	}
	if err := series(", after the broken GitRepos were deleted"); err != nil {
		return err
	}
	longest := interval + jitter
	measure.Row("waiting for the next poll, by the interval", measure.Seconds(longest/2), measure.Seconds(longest), "")
	return nil
}

// round pushes one commit to each good remote, at a random moment within an
// interval, and appends how long each took, by whether the remote shares its
// host with broken ones.
func (w *watched) round(ctx context.Context, times map[bool][]time.Duration) error {
	remotes := w.remotes.good()
	took := make([]time.Duration, len(remotes))
	group, gctx := errgroup.WithContext(ctx)
	for i, r := range remotes {
		group.Go(func() error {
			pause(gctx, rand.N(interval))
			if gctx.Err() != nil {
				return gctx.Err()
			}
			if err := r.commit(fmt.Sprint("round at ", time.Now())); err != nil {
				return err
			}
			begin := time.Now()
			if err := push(r.tree); err != nil {
				return err
			}
			err := w.until(gctx, "a commit of "+r.name+" is seen", func() string { return w.readOf(r) })
			took[i] = time.Since(begin)
			if errors.Is(err, errTimeout) {
				return nil // what it took stands in the table
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, r := range remotes {
		times[r.mixed] = append(times[r.mixed], took[i])
	}
	return w.published(ctx)
}

// A span is a number of requests that is expected.
type span struct{ low, high float64 }

func (s span) String() string { return fmt.Sprintf("%.0f to %.0f", s.low, s.high) }

// polls is how often so many remotes are asked in a window, each by one poller
// for all its branches and GitRepos, so long after the answer to the last
// time, plus the jitter. A poll more or less at either end is not counted.
func polls(window, every time.Duration, remotes int) span {
	per := window.Seconds() / every.Seconds() * float64(remotes)
	return span{low: per * float64(interval) / float64(interval+jitter), high: per}
}

// partPID is the process id of a part of the manager.
func partPID(f *fleet.Fleet, name string) (int, error) {
	for _, p := range f.Parts() {
		if p.Cluster == f.Local.Name && p.Name == name && p.PID != 0 {
			return p.PID, nil
		}
	}
	return 0, fmt.Errorf("measure %s: %w", name, errNoProcess)
}

// errNoProcess is why a process cannot be measured.
var errNoProcess = errors.New("it does not run")
