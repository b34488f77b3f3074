package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Runner works until its context ends.
type Runner interface {
	Run(ctx context.Context) error
}

// source is a Runner that others wait for: a cache.
type source interface {
	Runner
	HasSynced() bool
	Name() string
}

// Run starts the caches among parts, waits until each has its first list, and then runs
// the other parts. It returns nil when ctx ends, or the error of a part that fails; in
// both cases after all parts have stopped. It calls report for every failed
// reconciliation.
func Run(ctx context.Context, report func(loop string, key Key, err error), parts ...Runner) error {
	group, ctx := errgroup.WithContext(ctx)
	var sources []source
	var rest []Runner
	for _, p := range parts {
		switch p := p.(type) {
		case source:
			sources = append(sources, p)
			group.Go(func() error { return p.Run(ctx) })
		case *Controller:
			if report != nil {
				p.onError = func(key Key, err error) { report(p.name, key, err) }
			}
			p.shutDownAfter(ctx) // the queue delays keys already, and ctx may end before p runs
			rest = append(rest, p)
		default:
			rest = append(rest, p)
		}
	}
	group.Go(func() error {
		if err := waitForSync(ctx, sources); err != nil {
			return nil // ctx has ended; its owner knows why
		}
		for _, p := range rest {
			group.Go(func() error { return p.Run(ctx) })
		}
		return nil
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// waitForSync returns when all sources have synced, or with ctx's error.
func waitForSync(ctx context.Context, sources []source) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range sources {
		for !s.HasSynced() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for %s: %w", s.Name(), ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}

// RunnerFunc makes a Runner of a function.
type RunnerFunc func(ctx context.Context) error

// Run calls the function.
func (f RunnerFunc) Run(ctx context.Context) error { return f(ctx) }
