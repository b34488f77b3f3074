package heartbeat

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Every returns the times at which one agent of many checks in: once in each interval, at a
// moment that follows from its identity. Those of many agents are spread evenly, whenever
// the agents were started, and stay so.
func Every(interval time.Duration, identity string) func(now time.Time) time.Time {
	lag := hashShare(interval, identity)
	return func(now time.Time) time.Time {
		next := now.Truncate(interval).Add(lag)
		if !next.After(now) {
			next = next.Add(interval)
		}
		return next
	}
}

// Delays between attempts to check in with a manager that is away.
const (
	firstAgain = time.Second
	ramp       = 5 // attempts, each twice as long after the one before
	// RetryInterval is between two attempts when those are over: half of the agents
	// are back within 7.5 s after an outage, and all within 15 s.
	RetryInterval = 15 * time.Second
)

// RampTime is after how long at most an agent that lost its manager, which does not
// answer, tries again at the times of Retries alone.
const RampTime = (1<<ramp-1)*firstAgain + ramp*10*time.Second // an attempt takes 10 s at most

// RetryTime returns when an agent tries again after so many failures in a row, the last of them
// now. It waits 1, 2, 4, 8 and 16 s, each up to half of that less, and then until its own
// moment in each 15 s. So many agents that lose one manager at one moment try again at
// different moments. The identity chooses them, so that an agent that restarts keeps its
// own; wait.Backoff chooses at random.
func RetryTime(failures int, now time.Time, identity string) time.Time {
	if failures > ramp {
		return Retries(identity)(now)
	}
	d := firstAgain << max(0, failures-1)
	return now.Add(d - hashShare(d/2, identity+"/"+strconv.Itoa(failures)))
}

// Retries returns the times at which an agent tries again that has lost its manager long
// ago.
func Retries(identity string) func(now time.Time) time.Time { return Every(RetryInterval, identity) }

// A Schedule holds the times at which an agent connects that connects only then. Each agent
// is late by a delay of its own, at most 30 s and at most a tenth of the time between two,
// so that agents with the same schedule do not connect at the same moment.
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
// @hourly. place is the time zone that it is meant in. A schedule that does not come
// within five years after now is an error.
func ParseSchedule(text string, place *time.Location, now time.Time) (*Schedule, error) {
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q: the time zone has a setting of its own", text)
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	times, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	s := &Schedule{text: text, times: times, place: place}
	if s.times.Next(now.In(place)).IsZero() {
		return nil, fmt.Errorf("schedule %q: %w", text, errNever)
	}
	return s, nil
}

var errNever = errors.New("there is no such time within five years")

// String returns the schedule as it was given, with its time zone.
func (s *Schedule) String() string { return fmt.Sprintf("%s (%s)", s.text, s.place) }

// Equal reports whether two schedules are the same; both may be nil.
func (s *Schedule) Equal(o *Schedule) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.String() == o.String()
}

// TimesOf returns the times of one agent.
func (s *Schedule) TimesOf(identity string) func(now time.Time) time.Time {
	return func(now time.Time) time.Time {
		// A time that has come, but not for this agent yet, is still its next one.
		for at := s.times.Next(now.Add(-maxLag).In(s.place)); ; {
			following := s.times.Next(at)
			late := at.Add(hashShare(min(maxLag, following.Sub(at)/lagPart), identity))
			if late.After(now) {
				return late
			}
			at = following
		}
	}
}

// FirstVisit returns when an agent with a schedule connects first after it was started now:
// at the next of its times. announced is the check-in that it last announced to its
// manager; if that is earlier, the agent keeps it. An agent that has announced nothing was
// connected before, or is new: its manager would miss it, so it connects at once.
func FirstVisit(announced, next, now time.Time) time.Time {
	switch {
	case announced.IsZero():
		return now
	case announced.After(now) && announced.Before(next):
		return announced
	}
	return next
}

// hashShare is the part of a span that belongs to one of many.
func hashShare(span time.Duration, identity string) time.Duration {
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
