// Package schedule computes the change windows of clusters from Schedules. The state at a
// time follows from the cron expression, the duration, the location and that time alone, so
// that a restart changes nothing.
//
// A window opens at each time of the expression and stays open for the duration, which is
// real time. Where the clock of the location skips a time of the expression, the window
// opens at the moment of the skip. Where the clock shows a time twice, it opens at the first
// one.
//
// The package reads the database of time zones, of the system or else its own copy.
package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"time"
	_ "time/tzdata" // images have no database
)

const (
	day = 24 * time.Hour
	// horizon is how many years a search looks ahead. All days of the week and leap years
	// come together within 40 years.
	horizon = 40
	// maxJoins is how many windows in a row, each of which opens before the one before it has
	// closed, are followed to their end.
	maxJoins = 1000
)

// Errors of a Schedule.
var (
	// ErrOverlap reports that a window opens before the one before it has closed.
	ErrOverlap = errors.New("duration is too long and overlaps with the next execution time")
	// ErrNever reports that no date matches the expression.
	ErrNever = errors.New("no date matches the cron expression: no window ever opens")
	// ErrDuration reports a duration that is not positive.
	ErrDuration = errors.New("duration must be longer than 0")
)

// A Definition defines windows.
type Definition struct {
	// Name is the name of the Schedule.
	Name string `json:"name"`
	// Cron is when windows open: a cron expression in the form of Quartz, with 6 or 7 fields,
	// seconds first. Without, none opens.
	Cron string `json:"schedule,omitempty"`
	// Duration is how long a window stays open, as time.ParseDuration reads it.
	Duration string `json:"duration,omitempty"`
	// Location is the time zone of Cron, by its IANA name.
	Location string `json:"location,omitempty"`
	// Freeze asks that nothing is corrected outside of windows either.
	Freeze bool `json:"freeze,omitempty"`
}

// A Schedule computes when windows are open. It is never changed.
type Schedule struct {
	expression *expression
	duration   time.Duration
	location   *time.Location
}

// Parse parses a definition. An empty location is UTC.
//
// It does not report ErrOverlap and ErrNever; see Check.
func Parse(d Definition) (*Schedule, error) {
	e, err := parseExpression(d.Cron)
	if err != nil {
		return nil, err
	}
	duration, err := time.ParseDuration(d.Duration)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse duration %q: want one such as 90m or 1h30m", d.Duration)
	case duration <= 0:
		return nil, ErrDuration
	}
	location, err := time.LoadLocation(d.Location)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q", d.Location)
	}
	return &Schedule{expression: e, duration: duration, location: location}, nil
}

// Check reports whether the windows of a Schedule can be used: ErrNever if none ever opens,
// ErrOverlap if one opens before the one before it has closed. It compares the time of day
// and the dates of all windows within 40 years; an hour that a clock skips does not count.
func (s *Schedule) Check() error {
	e := s.expression
	first := 2000
	if len(e.years) > 0 {
		first = e.years[0]
	}
	n := e.size()
	opens, closes := e.at(0), e.at(n-1)
	never, before := true, time.Time{}
	for year := first; year < first+horizon; year++ {
		for month := time.January; month <= time.December; month++ {
			for set := e.daysIn(year, month); set != 0; set &= set - 1 {
				date := time.Date(year, month, bits.TrailingZeros32(set), 0, 0, 0, 0, time.UTC)
				if !never && date.Sub(before) <= s.duration-time.Duration(opens-closes)*time.Second {
					return ErrOverlap
				}
				never, before = false, date
			}
		}
	}
	if never {
		return ErrNever
	}
	for i := 1; i < n; i++ {
		if time.Duration(e.at(i)-e.at(i-1))*time.Second <= s.duration {
			return ErrOverlap
		}
	}
	return nil
}

// Open reports whether a window is open at a time. A window is open at the time at which it
// opens, and closed at the time at which it closes.
func (s *Schedule) Open(now time.Time) bool {
	_, open := s.opened(now)
	return open
}

// NextOpen returns when the next window opens after a time; the zero Time if none opens
// within 40 years.
func (s *Schedule) NextOpen(now time.Time) time.Time {
	// A day of the location may be two days of its calendar away from the same day elsewhere.
	start := now.In(s.location).AddDate(0, 0, -2)
	year, month, from := start.Date()
	for n := range (horizon + 1) * 12 {
		y, m := year+(int(month)-1+n)/12, time.Month((int(month)-1+n)%12+1)
		set := s.expression.daysIn(y, m)
		if n == 0 {
			set = set >> from << from
		}
		for ; set != 0; set &= set - 1 {
			if t, ok := s.firstAfter(date{y, m, bits.TrailingZeros32(set)}, now); ok {
				return t
			}
		}
	}
	return time.Time{}
}

// NextChange returns when windows next open or close after a time; the zero Time if they
// never do within 40 years.
func (s *Schedule) NextChange(now time.Time) time.Time {
	opened, open := s.opened(now)
	if !open {
		return s.NextOpen(now)
	}
	end := opened.Add(s.duration)
	for range maxJoins {
		if opened, open = s.opened(end); !open {
			break
		}
		end = opened.Add(s.duration)
	}
	return end
}

// opened returns when the window that is open at a time has opened.
func (s *Schedule) opened(now time.Time) (time.Time, bool) {
	end := now.In(s.location).AddDate(0, 0, 2)
	oldest := now.Add(-min(s.duration, horizon*366*day))
	year, month, to := end.Date()
	for n := range (horizon + 1) * 12 {
		at := time.Date(year, month-time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		if at.AddDate(0, 1, 2).Before(oldest) {
			break
		}
		set := s.expression.daysIn(at.Year(), at.Month())
		if n == 0 {
			set &= 1<<(to+1) - 1
		}
		for set != 0 {
			last := bits.Len32(set) - 1
			set &^= 1 << last
			if t, ok := s.lastUntil(date{at.Year(), at.Month(), last}, now); ok {
				return t, now.Sub(t) < s.duration
			}
		}
	}
	return time.Time{}, false
}

// A date is a day of the calendar.
type date struct {
	year  int
	month time.Month
	day   int
}

// firstAfter returns the first time after now at which a window opens on a date.
func (s *Schedule) firstAfter(d date, now time.Time) (time.Time, bool) {
	n := s.expression.size()
	i := sort.Search(n, func(i int) bool { return s.instant(d, s.expression.at(i)).After(now) })
	if i == n {
		return time.Time{}, false
	}
	return s.instant(d, s.expression.at(i)), true
}

// lastUntil returns the last time until now, inclusive, at which a window opens on a date.
func (s *Schedule) lastUntil(d date, now time.Time) (time.Time, bool) {
	i := sort.Search(s.expression.size(), func(i int) bool { return s.instant(d, s.expression.at(i)).After(now) })
	if i == 0 {
		return time.Time{}, false
	}
	return s.instant(d, s.expression.at(i-1)), true
}

// instant returns when the clock of the location shows a time of day on a date: the first
// time if it shows it twice, and the moment of the skip if it skips it.
func (s *Schedule) instant(d date, second int) time.Time {
	t := time.Date(d.year, d.month, d.day, 0, 0, second, 0, s.location)
	wall := time.Date(d.year, d.month, d.day, 0, 0, second, 0, time.UTC)
	// time.Date adds the seconds before it looks up the offset, so t shows wall, if the clock does.
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	switch shown := t.Add(time.Duration(offset) * time.Second); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	_, before := start.Add(-time.Nanosecond).Zone()
	if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return t
}
