package heartbeat

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Agents that were started at the same moment check in evenly, each exactly once
// in an interval.
func TestEvery(t *testing.T) {
	const interval, agents, parts = time.Minute, 1000, 20
	start := time.Date(2026, 8, 24, 14, 2, 7, 0, time.UTC)
	var hits [parts]int
	for n := range agents {
		next := Every(interval, fmt.Sprintf("fleet-default/shop-%04d", n))
		first := next(start)
		if !first.After(start) || first.Sub(start) > interval {
			t.Fatalf("agent %d: the first one at %s after the start", n, first.Sub(start))
		}
		if second := next(first); second.Sub(first) != interval {
			t.Fatalf("agent %d: %s between two", n, second.Sub(first))
		}
		hits[int(first.Sub(start)*parts/(interval+1))]++
	}
	for part, n := range hits {
		if n < agents/parts/2 || n > agents/parts*2 {
			t.Errorf("%d of %d in part %d of %d: %v", n, agents, part, parts, hits)
		}
	}
}

func TestSchedule(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this machine")
	}
	at := func(text string) time.Time {
		out, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	cases := map[string]struct {
		why      string
		schedule string
		place    *time.Location
		now      string
		want     string // without what is added
		lag      time.Duration
	}{
		"Nightly":  {"a night's connection", "0 3 * * *", time.UTC, "2026-08-24T14:02:00Z", "2026-08-25T03:00:00Z", maxLag},
		"Place":    {"by the clock on the site", "0 3 * * *", berlin, "2026-08-24T14:02:00Z", "2026-08-25T01:00:00Z", maxLag},
		"Summer":   {"an hour that the clock skips comes an hour later, not a day", "30 2 * * *", berlin, "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z", 24 * time.Hour},
		"Seconds":  {"six fields have seconds in front", "*/10 * * * * *", time.UTC, "2026-08-24T14:02:03Z", "2026-08-24T14:02:10Z", time.Second},
		"Hourly":   {"a word", "@hourly", time.UTC, "2026-08-24T14:02:00Z", "2026-08-24T15:00:00Z", maxLag},
		"Workdays": {"names of days", "0 22 * * mon-fri", time.UTC, "2026-08-21T22:05:00Z", "2026-08-24T22:00:00Z", maxLag},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSchedule(c.schedule, c.place, at(c.now))
			if err != nil {
				t.Fatal(err)
			}
			for n := range 50 {
				next := s.TimesOf(fmt.Sprint("agent-", n))
				got := next(at(c.now))
				if late := got.Sub(at(c.want)); late < 0 || late > c.lag {
					t.Fatalf("%s: want %s, got %s", c.why, c.want, got.UTC())
				}
				if second := next(got); !second.After(got) {
					t.Fatalf("after %s comes %s", got, second)
				}
				if again := next(got.Add(-time.Millisecond)); !again.Equal(got) {
					t.Fatalf("just before %s the next is %s: its own time would be missed", got, again)
				}
			}
		})
	}
}

func TestScheduleRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "schedule",
		"every day":             "schedule",
		"CRON_TZ=UTC 0 3 * * *": "time zone",
		"TZ=UTC":                "time zone",
		"0 0 30 2 *":            "no such time",
	} {
		if _, err := ParseSchedule(text, time.UTC, time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", text, want, err)
		}
	}
}
