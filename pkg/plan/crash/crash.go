// Package crash records when a process took its lease after a holder that ended without
// releasing it, and finds from these times whether the process dies again and again.
package crash

import (
	"slices"
	"strings"
	"time"
)

const (
	kept    = 10               // times in a record
	window  = 20 * time.Minute // older ones do not count
	settled = 10 * time.Minute // a process that has lived for so long is well
	many    = 3                // deaths that make a loop
)

// Add returns a record with one more time, without the oldest where it would be longer than
// 10.
func Add(record string, at time.Time) string {
	times := append(Parse(record), at.UTC().Truncate(time.Second))
	times = times[max(0, len(times)-kept):]
	texts := make([]string, len(times))
	for i, t := range times {
		texts[i] = t.Format(time.RFC3339)
	}
	return strings.Join(texts, ",")
}

// Parse returns the times of a record, oldest first, without what is no time.
func Parse(record string) []time.Time {
	var times []time.Time
	for text := range strings.SplitSeq(record, ",") {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			times = append(times, t)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// A Loop is a process that dies again and again.
type Loop struct {
	// Process is its Deployment.
	Process string `json:"process"`
	// Count is how often it has died since Since, at least; Last is the last time.
	Count int       `json:"count"`
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
}

// LoopOf reports whether a process with this record dies again and again: three
// times within 20 minutes, and the last time less than 10 minutes ago.
func LoopOf(process, record string, now time.Time) (Loop, bool) {
	recent := slices.DeleteFunc(Parse(record), func(t time.Time) bool { return now.Sub(t) > window || t.Sub(now) > window })
	if len(recent) < many || now.Sub(recent[len(recent)-1]) > settled {
		return Loop{}, false
	}
	return Loop{Process: process, Count: len(recent), Since: recent[0], Last: recent[len(recent)-1]}, true
}
