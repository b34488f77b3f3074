package monitor

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/monitor"
)

// DefaultInterval is the time between two snapshots unless the user says otherwise.
const DefaultInterval = 60 * time.Second

// Options are what the user asks for.
type Options struct {
	Watch    bool
	Interval Interval
}

// An Interval is the value of --interval: seconds, or a duration such as 5m. It is a second at least.
type Interval time.Duration

// String returns the value as a duration.
func (i *Interval) String() string { return time.Duration(*i).String() }

// Type returns what help calls the value.
func (i *Interval) Type() string { return "time" }

// Set reads the value.
func (i *Interval) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, errNumber := strconv.ParseInt(text, 10, 32); errNumber == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < time.Second {
		return errors.New("want seconds such as 60, or a duration such as 5m; one second at least")
	}
	*i = Interval(d)
	return nil
}

// Run prints a snapshot as one line of JSON; with Watch one after each interval, until ctx ends. With
// Watch a snapshot that fails is noted, and the next one is tried.
func Run(ctx context.Context, o Options, s *client.Session) error {
	if err := printSnapshot(ctx, s); err != nil || !o.Watch {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(o.Interval)):
		}
		if err := printSnapshot(ctx, s); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.Std.Note("warning: no snapshot: %v", err)
		}
	}
}

func printSnapshot(ctx context.Context, s *client.Session) error {
	in, err := collect(ctx, s)
	if err != nil {
		return err
	}
	snapshot := monitor.Diagnose(in)
	var line bytes.Buffer
	if err := printer.PrintJSON(&line, snapshot, true); err != nil {
		return err
	}
	if line.Len() > monitor.MaxLineBytes {
		s.Std.Note("warning: the snapshot has %d MiB; fleet analyze reads at most %d MiB; -n makes it smaller", line.Len()>>20, monitor.MaxLineBytes>>20)
	}
	if _, err := s.Std.Out.Write(line.Bytes()); err != nil {
		return err
	}
	if n := len(snapshot.Unread); n > 0 {
		s.Std.Note("%s not read; the key unread says which, and why", printer.Plural(n, "list"))
	}
	return nil
}
