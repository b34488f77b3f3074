package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSchedules is how many Schedules of one cluster count. Of more, the first by name count:
// the others open no windows.
const MaxSchedules = 32

// maxEncoded is how long the text of Encode may be, in bytes.
const maxEncoded = 32 << 10

// Windows are the windows of one cluster. They are open while those of any of its Schedules
// are open. The zero Windows are those of a cluster without Schedules: always open.
type Windows struct {
	schedules []*Schedule
	scheduled bool
	freeze    bool
	fault     error
}

// Encode returns definitions as the text that travels with BundleDeployments, sorted by
// name; empty for none.
func Encode(list []Definition) string {
	if len(list) == 0 {
		return ""
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	freeze := slices.ContainsFunc(list, func(d Definition) bool { return d.Freeze })
	list = list[:min(len(list), MaxSchedules)]
	list[0].Freeze = freeze // one that asks for it may not be among the first
	raw, err := json.Marshal(list)
	if err != nil {
		return "[]" // never: a Definition is text
	}
	return string(raw)
}

// Decode reads what Encode has returned. Windows that it cannot read never open.
func Decode(text string) Windows {
	if text == "" {
		return Windows{}
	}
	w := Windows{scheduled: true}
	if len(text) > maxEncoded {
		w.fault = fmt.Errorf("windows of %d bytes, at most %d are allowed", len(text), maxEncoded)
		return w
	}
	var list []Definition
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		w.fault = errors.New("the windows are not in a form that this version can read")
		return w
	}
	for _, d := range list[:min(len(list), MaxSchedules)] {
		w.freeze = w.freeze || d.Freeze
		s, err := Parse(d)
		if err != nil {
			if d.Cron == "" {
				err = errors.New("it cannot be used, its condition Ready says why")
			}
			w.fault = fmt.Errorf("schedule %q: %w", d.Name, err)
			continue
		}
		w.schedules = append(w.schedules, s)
	}
	return w
}

// Scheduled reports whether a cluster has any Schedule.
func (w Windows) Scheduled() bool { return w.scheduled }

// Freeze reports whether nothing is to be corrected outside of the windows either.
func (w Windows) Freeze() bool { return w.freeze }

// Open reports whether changes are let through at a time.
func (w Windows) Open(now time.Time) bool {
	return !w.scheduled || slices.ContainsFunc(w.schedules, func(s *Schedule) bool { return s.Open(now) })
}

// NextOpen returns when a window next opens after a time; the zero Time if none does.
func (w Windows) NextOpen(now time.Time) time.Time {
	var next time.Time
	for _, s := range w.schedules {
		next = earlier(next, s.NextOpen(now))
	}
	return next
}

// NextChange returns when the windows next open or close after a time; the zero Time if they
// never do. Windows of many Schedules that follow each other without a gap may be reported
// as a change that is none.
func (w Windows) NextChange(now time.Time) time.Time {
	open := w.Open(now)
	for range len(w.schedules) * 4 {
		var next time.Time
		for _, s := range w.schedules {
			next = earlier(next, s.NextChange(now))
		}
		if next.IsZero() || w.Open(next) != open {
			return next
		}
		now = next
	}
	if len(w.schedules) == 0 {
		return time.Time{}
	}
	return now
}

// earlier returns the earlier one of two times; the zero Time is later than all others.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Closed says why changes wait at a time, and for what; empty while windows are open.
func (w Windows) Closed(now time.Time) string {
	if w.Open(now) {
		return ""
	}
	text := "outside of the change windows of this cluster"
	if next := w.NextOpen(now); !next.IsZero() {
		return text + ": the next one opens at " + next.UTC().Format(time.RFC3339)
	}
	if w.fault != nil {
		return text + ", and none opens: " + w.fault.Error()
	}
	return text + ", and none opens any more"
}
