package kubebin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// interval is how often Ensure prints a line while it builds.
const interval = 8 * time.Second

// Elapsed is the clock in front of progress lines: minutes and seconds.
func Elapsed(d time.Duration) string {
	seconds := int(d.Seconds())
	return fmt.Sprintf("%2d:%02d", seconds/60, seconds%60)
}

// Ensure returns the path of the Kubernetes executable in the user's cache
// folder and builds it first where it is missing, with a line on out every
// few seconds. It prints nothing where there is nothing to build.
func Ensure(ctx context.Context, out io.Writer) (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	b, err := Default(root)
	if err != nil {
		return "", err
	}
	path, err := b.Cached(ctx)
	if !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	begin := time.Now()
	return b.Narrated(ctx, func(line string) {
		fmt.Fprintf(out, "%s  build  %s\n", Elapsed(time.Since(begin)), line)
	})
}

// Narrated is Kubernetes with a line of text to say at the start, every few
// seconds and at the end. say is not called from two goroutines at once.
func (b Builder) Narrated(ctx context.Context, say func(line string)) (string, error) {
	version, err := b.Version()
	if err != nil {
		return "", err
	}
	name := "kubernetes " + strings.TrimPrefix(version, "v")
	say(fmt.Sprintf("%s: this first time only, about %d minutes on %d cores", name, minutes(runtime.NumCPU()), runtime.NumCPU()))
	path, err := b.narrate(ctx, name, say, Builder.Kubernetes)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("look at what was built: %w", err)
	}
	say(fmt.Sprintf("%s: done, %d MiB", name, info.Size()>>20))
	return path, nil
}

// NarratedLauncher is Launcher with a line of text to say every few seconds,
// and none where there is little to do.
func (b Builder) NarratedLauncher(ctx context.Context, say func(line string)) (string, error) {
	if _, err := os.Stat(b.launcher()); err != nil {
		say("fleet-sandbox: this first time only")
	}
	return b.narrate(ctx, "fleet-sandbox", say, Builder.Launcher)
}

// NarratedFleet is Fleet with a line of text to say every few seconds.
func (b Builder) NarratedFleet(ctx context.Context, say func(line string)) (string, error) {
	return b.narrate(ctx, strings.Join(Programs, ", "), say, Builder.Fleet)
}

// narrate calls build and, as long as that takes, says from time to time how
// far it is.
func (b Builder) narrate(ctx context.Context, name string, say func(string), build func(Builder, context.Context) (string, error)) (string, error) {
	var (
		mu  sync.Mutex
		now Progress
	)
	b.Report = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		now = p
	}
	done := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				mu.Lock()
				line := now.String()
				mu.Unlock()
				say(name + ": " + line)
			}
		}
	})
	path, err := build(b, ctx)
	close(done)
	printer.Wait()
	return path, err
}

// minutes is what a build takes, from 2 cores needing 5 with downloads.
func minutes(cores int) int { return max(1, 10/max(1, cores)) }

// String says in a few words how far the build is.
func (p Progress) String() string {
	switch {
	case p.Linking:
		return fmt.Sprintf("%d of %d packages, linking", p.Built, p.Total)
	case p.Total > 0:
		return fmt.Sprintf("%d of %d packages", p.Built, p.Total)
	case p.Built > 0:
		return fmt.Sprintf("%d packages", p.Built)
	case p.Fetched > 0:
		return fmt.Sprintf("%d modules fetched", p.Fetched)
	default:
		return "checking what has changed"
	}
}
