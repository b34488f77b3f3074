package client

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
)

// Refresh calls look whenever something changes that the queries select, and every
// ten seconds, until ctx ends. Changes that come together count as one. A look that
// fails is noted, once for the same error, and tried again.
func (s *Session) Refresh(ctx context.Context, qs []Query, look func(context.Context) error) error {
	changed := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.FollowAll(ctx, qs, func([]Change) error {
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		})
	})
	group.Go(func() error {
		wait, noted := AskAgain, ""
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			case <-changed:
				sleep(ctx, gathering)
			}
			err := look(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil || errors.As(err, new(cli.Reported)):
				wait, noted = AskAgain, ""
			default:
				wait = RetryDelay
				if text := err.Error(); text != noted {
					noted = text
					s.NoteWatchError(err)
				}
			}
		}
	})
	return group.Wait()
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
