package view

import (
	"fmt"
	"time"
)

// Age returns a length of time as it stands in tables: in the largest unit that fits,
// rounded down. Less than nothing is 0s, because clocks differ.
func Age(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < year:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dy", d/year)
}

// Ago returns the Age of a moment, or "" where it is not known.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Age(now.Sub(t))
}

// Clock formats a moment in the user's time zone, which is that of now. It is the time
// alone if the moment is today.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// Elapsed returns the time since a command began, as " 0:03".
func Elapsed(d time.Duration) string {
	s := int(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}
