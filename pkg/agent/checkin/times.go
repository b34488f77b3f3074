package checkin

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Every is the times at which one agent of many checks in: once in each
// interval, at a moment that follows from its identity. Those of many agents are
// spread evenly, whenever the agents were started, and stay so.
func Every(interval time.Duration, identity string) func(now time.Time) time.Time {
	lag := share(interval, identity)
	return func(now time.Time) time.Time {
		next := now.Truncate(interval).Add(lag)
		if !next.After(now) {
			next = next.Add(interval)
		}
		return next
	}
}

// A Schedule is the times at which an agent connects that does so only then. Each
// agent is late by a part of its own, at most 30 s and at most a tenth of the time
// between two, so that those with one schedule do not come at one moment.
type Schedule struct {
	text  string
	times cron.Schedule
	place *time.Location
}

// Limits of what is added to a scheduled time.
const (
	maxLag  = 30 * time.Second
	lagPart = 10
)

// ParseSchedule reads a schedule as CronJobs have it: five fields (minute, hour,
// day of month, month, day of week), six with seconds in front, or a word like
// @hourly. place is the time zone that it is meant in. A schedule that never
// comes is an error.
func ParseSchedule(text string, place *time.Location) (*Schedule, error) {
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q: the time zone has a setting of its own", text)
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	times, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	s := &Schedule{text: text, times: times, place: place}
	if s.times.Next(time.Now().In(place)).IsZero() {
		return nil, fmt.Errorf("schedule %q: %w", text, errNever)
	}
	return s, nil
}

var errNever = errors.New("there is no such time within five years")

// String is the schedule as it was given, with its time zone.
func (s *Schedule) String() string { return fmt.Sprintf("%s (%s)", s.text, s.place) }

// For is the times of one agent.
func (s *Schedule) For(identity string) func(now time.Time) time.Time {
	return func(now time.Time) time.Time {
		// A time that has come, but not for this agent yet, is still its next one.
		for at := s.times.Next(now.Add(-maxLag).In(s.place)); ; {
			following := s.times.Next(at)
			late := at.Add(share(min(maxLag, following.Sub(at)/lagPart), identity))
			if late.After(now) {
				return late
			}
			at = following
		}
	}
}

// share is the part of a span that belongs to one of many.
func share(span time.Duration, identity string) time.Duration {
	if span <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(identity)) // never fails
	x := h.Sum64()
	x ^= x >> 33 // FNV alone leaves similar names close together
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return time.Duration(x % uint64(span)) //nolint:gosec // less than span
}
