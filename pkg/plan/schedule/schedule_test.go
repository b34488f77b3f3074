package schedule

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at parses a time of the tests.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t *testing.T, d Definition) *Schedule {
	t.Helper()
	s, err := Parse(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNextOpen(t *testing.T) {
	cases := map[string]struct {
		why, cron string
		want      []string // after 2026-11-14T09:00:00Z, a Saturday
	}{
		"Daily":                   {"once a day", "0 30 22 * * ?", []string{"2026-11-14T22:30:00Z", "2026-11-15T22:30:00Z"}},
		"Names":                   {"days by name, in any case", "0 0 1 ? * mon-FRI", []string{"2026-11-16T01:00:00Z", "2026-11-17T01:00:00Z"}},
		"WeekdaysCountFromSunday": {"1 is Sunday, not Monday as elsewhere", "0 0 1 ? * 1", []string{"2026-11-15T01:00:00Z", "2026-11-22T01:00:00Z"}},
		"Steps":                   {"from a value to the end of the field", "0 10/25 8-9 * * *", []string{"2026-11-14T09:10:00Z", "2026-11-14T09:35:00Z", "2026-11-15T08:10:00Z"}},
		"StepsOfRange":            {"a step within a range", "0 0 0-6/3 * * *", []string{"2026-11-15T00:00:00Z", "2026-11-15T03:00:00Z", "2026-11-15T06:00:00Z"}},
		"Lists":                   {"a list of values, ranges and steps", "0 0 3,20-21 * * *", []string{"2026-11-14T20:00:00Z", "2026-11-14T21:00:00Z", "2026-11-15T03:00:00Z"}},
		"Year":                    {"a seventh field", "0 0 0 1 1 ? 2028", []string{"2028-01-01T00:00:00Z", "none"}},
		"LeapDay":                 {"only where it exists", "0 0 0 29 2 ?", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		"LastDay":                 {"L", "0 0 0 L * ?", []string{"2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z"}},
		"BeforeLastDay":           {"L-2", "0 0 0 L-2 * ?", []string{"2026-11-28T00:00:00Z", "2026-12-29T00:00:00Z"}},
		"LastWeekday":             {"LW: the month ends on a Sunday in January 2027", "0 0 0 LW 1 ?", []string{"2027-01-29T00:00:00Z"}},
		"NearestWeekday":          {"15W: a Sunday becomes Monday", "0 0 0 15W * ?", []string{"2026-11-16T00:00:00Z", "2026-12-15T00:00:00Z"}},
		"NearestInMonth":          {"1W: a Saturday at the beginning becomes the 3rd", "0 0 0 1W 5 ?", []string{"2027-05-03T00:00:00Z"}},
		"LastFriday":              {"6L", "0 0 0 ? * 6L", []string{"2026-11-27T00:00:00Z", "2026-12-25T00:00:00Z"}},
		"LastSaturday":            {"L alone is the last Saturday, as in the reference", "0 0 0 ? * L", []string{"2026-11-28T00:00:00Z", "2026-12-26T00:00:00Z"}},
		"SecondTuesday":           {"3#2", "0 0 0 ? * TUE#2", []string{"2026-12-08T00:00:00Z", "2027-01-12T00:00:00Z"}},
		"FifthFriday":             {"only in months that have one", "0 0 0 ? * 6#5", []string{"2027-01-29T00:00:00Z", "2027-04-30T00:00:00Z"}},
		"FifthInFebruary":         {"once in 28 years", "0 0 0 ? 2 1#5", []string{"2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"}},
		"Past":                    {"a year that has passed", "0 0 0 ? * * 2020", []string{"none"}},
		"Never":                   {"a day that does not exist", "0 0 0 30 2 ?", []string{"none"}},
		"NeverByYear":             {"a day that does not exist in the year", "0 0 0 ? 2 1#5 2027", []string{"none"}},
		"Macro":                   {"a name for an expression", "@weekly", []string{"2026-11-15T00:00:00Z"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := parse(t, Definition{Cron: c.cron, Duration: "1m", Location: "UTC"})
			now := at(t, "2026-11-14T09:00:00Z")
			for _, want := range c.want {
				next := s.NextOpen(now)
				got := next.UTC().Format(time.RFC3339)
				if next.IsZero() {
					got = "none"
				}
				if got != want {
					t.Fatalf("%s: %q after %s opens at %s, want %s", c.why, c.cron, now, got, want)
				}
				if now = next; !next.IsZero() && !s.Open(next) {
					t.Errorf("not open at %s, when it opens", next)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	ok := Definition{Cron: "0 0 1 * * ?", Duration: "1h", Location: "Europe/Berlin"}
	with := func(change func(*Definition)) Definition {
		d := ok
		change(&d)
		return d
	}
	cron := func(text string) Definition { return with(func(d *Definition) { d.Cron = text }) }
	cases := map[string]struct {
		in   Definition
		want string
	}{
		"Good":         {ok, ""},
		"Empty":        {cron(""), "parse cron expression: it has 0 fields, want 6 or 7: seconds first"},
		"FiveFields":   {cron("0 1 * * *"), "parse cron expression: it has 5 fields, want 6 or 7: seconds first"},
		"BothDays":     {cron("0 0 1 1 * 2"), `parse cron expression: day field set twice: day of month "1" and day of week "2"`},
		"Second":       {cron("60 0 1 * * ?"), `parse cron expression: invalid second "60"`},
		"ListedSecond": {cron("0,99 0 1 * * ?"), `parse cron expression: invalid second "99"`},
		"Hour":         {cron("0 0 24 * * ?"), `parse cron expression: invalid hour "24"`},
		"Month":        {cron("0 0 1 * MAI ?"), `parse cron expression: invalid month "MAI"`},
		"Backwards":    {cron("0 0 5-1 * * ?"), `parse cron expression: invalid hour "5-1"`},
		"NoStep":       {cron("0 0/0 1 * * ?"), `parse cron expression: invalid minute "0/0"`},
		"SixthFriday":  {cron("0 0 1 ? * 6#6"), `parse cron expression: invalid day of week "6#6"`},
		"ManyLast":     {cron("0 0 1 ? * 2,3L"), `parse cron expression: invalid day of week "2,3"`},
		"Year":         {cron("0 0 1 * * ? 1969"), `parse cron expression: invalid year "1969"`},
		"Long":         {cron(strings.Repeat("1,", 200) + "1 0 0 * * ?"), "parse cron expression: it has 411 characters, at most 256 are allowed"},
		"Duration":     {with(func(d *Definition) { d.Duration = "1d" }), `parse duration "1d": want one such as 90m or 1h30m`},
		"NoDuration":   {with(func(d *Definition) { d.Duration = "0s" }), ErrDuration.Error()},
		"Location":     {with(func(d *Definition) { d.Location = "Mars" }), `unknown time zone "Mars"`},
		"Path":         {with(func(d *Definition) { d.Location = "../../etc/passwd" }), `unknown time zone "../../etc/passwd"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.in)
			if got := errorText(err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		why, cron, duration string
		want                error
	}{
		"Shorter":      {"the windows are apart", "0 0 1 * * ?", "23h59m59s", nil},
		"Equal":        {"one closes as the next opens", "0 0 1 * * ?", "24h", ErrOverlap},
		"WithinDay":    {"the first two starts of the list are far apart, the third is not", "0 0 1,20,21 * * ?", "1h", ErrOverlap},
		"OverMidnight": {"the last one of a day and the first one of the next", "0 0 1,23 * * ?", "2h", ErrOverlap},
		"OverMonths":   {"the last day of a month, and the first of the next", "0 0 0 1,31 * ?", "24h", ErrOverlap},
		"LongMonths":   {"February is the shortest month", "0 0 0 1 * ?", "672h", ErrOverlap},
		"JustShorter":  {"the same", "0 0 0 1 * ?", "671h", nil},
		"LeapYears":    {"four years apart", "0 0 0 29 2 ?", "30000h", nil},
		"Seconds":      {"each second", "* * * * * ?", "1s", ErrOverlap},
		"Once":         {"a single window may be long", "0 0 0 1 1 ? 2030", "100000h", nil},
		"Huge":         {"the longest duration that the API takes", "0 0 0 1 1 ?", "2562047h", ErrOverlap},
		"Never":        {"30 February", "0 0 0 30 2 ?", "1h", ErrNever},
		"NeverByYear":  {"no fifth Sunday in that February", "0 0 0 ? 2 1#5 2027", "1h", ErrNever},
		"Past":         {"a past year is no fault of the definition", "0 0 0 * * ? 2020", "1h", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := parse(t, Definition{Cron: c.cron, Duration: c.duration}).Check(); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.why, err, c.want)
			}
		})
	}
}

// The hour that Berlin skips is 02:00 to 03:00 on 28 March 2027, the one that it repeats
// 02:00 to 03:00 on 31 October 2027.
func TestDaylightSaving(t *testing.T) {
	cases := map[string]struct {
		why, cron, duration, after string
		want                       []string // times of changes: it opens and closes in turn
	}{
		"Before": {"a window that is open while the hour is skipped lasts as long as it should",
			"0 30 1 28 3 ?", "1h", "2027-03-27T00:00:00Z", []string{"2027-03-28T00:30:00Z", "2027-03-28T01:30:00Z"}},
		"InGap": {"a time that does not exist: it opens when the hour is skipped",
			"0 30 2 28 3 ?", "1h", "2027-03-27T00:00:00Z", []string{"2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z"}},
		"Repeated": {"a time that the clock shows twice: it opens once, at the first one",
			"0 30 2 31 10 ?", "1h", "2027-10-30T00:00:00Z", []string{"2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z", "2028-10-31T01:30:00Z"}},
		"WithinRepeated": {"asked within the second one, the window was open before",
			"0 30 2 31 10 ?", "30m", "2027-10-31T01:30:00Z", []string{"2028-10-31T01:30:00Z"}},
		"AfterRepeated": {"the hour that follows",
			"0 0 3 31 10 ?", "1h", "2027-10-30T00:00:00Z", []string{"2027-10-31T02:00:00Z", "2027-10-31T03:00:00Z"}},
		"ShortDay": {"windows of nearly a day join on the day that has 23 hours",
			"0 0 1 * * ?", "23h30m", "2027-03-28T01:00:00Z", []string{"2027-03-29T22:30:00Z", "2027-03-29T23:00:00Z"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := parse(t, Definition{Cron: c.cron, Duration: c.duration, Location: "Europe/Berlin"})
			now := at(t, c.after)
			for _, want := range c.want {
				open := s.Open(now)
				now = s.NextChange(now)
				if got := now.UTC().Format(time.RFC3339); got != want {
					t.Fatalf("%s: got %s, want %s", c.why, got, want)
				}
				if s.Open(now) == open || s.Open(now.Add(-time.Nanosecond)) != open {
					t.Errorf("%s: no change at %s", c.why, now.UTC())
				}
			}
		})
	}
}

// A zone may skip a whole day, as Samoa did on 30 December 2011.
func TestSkippedDay(t *testing.T) {
	s := parse(t, Definition{Cron: "0 0 12 30 12 ?", Duration: "1h", Location: "Pacific/Apia"})
	got := s.NextOpen(at(t, "2011-12-29T00:00:00Z")).UTC().Format(time.RFC3339)
	if want := "2011-12-30T10:00:00Z"; got != want {
		t.Errorf("got %s, want %s, when the day is skipped", got, want)
	}
}

// The state at a time is that of a clock that ticks through all times before.
func TestSameStateAtAnyTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}
	crons := []string{"0 0 2 * * ?", "0 30 1,2,13 * * ?", "0 15 0/6 ? * 1,3", "0 0 23 L * ?", "0 30 2 ? * 1L"}
	for _, zone := range zones {
		for _, cron := range crons {
			s := parse(t, Definition{Cron: cron, Duration: "50m", Location: zone})
			start := time.Date(2027, time.Month(1+rnd.IntN(12)), 1, 0, 0, 0, 0, time.UTC)
			tick, open := start, s.Open(start)
			change := s.NextChange(start)
			for range 1500 {
				tick = tick.Add(15 * time.Minute)
				for !change.IsZero() && !change.After(tick) {
					open, change = !open, s.NextChange(change)
				}
				if s.Open(tick) != open {
					t.Fatalf("%s in %s at %s: open is %v, by its changes %v", cron, zone, tick, !open, open)
				}
			}
		}
	}
}

func TestWindows(t *testing.T) {
	night := Definition{Name: "night", Cron: "0 0 22 * * ?", Duration: "2h", Location: "UTC"}
	late := Definition{Name: "late", Cron: "0 0 23 * * ?", Duration: "3h", Location: "UTC"}
	frozen := Definition{Name: "noon", Cron: "0 0 12 * * ?", Duration: "1h", Location: "UTC", Freeze: true}
	broken := Definition{Name: "broken"}
	cases := map[string]struct {
		why    string
		text   string
		now    string
		open   bool
		next   string
		closed string
	}{
		"None":      {"a cluster without Schedules is always open", Encode(nil), "2027-01-01T12:00:00Z", true, "0001-01-01T00:00:00Z", ""},
		"Closed":    {"before the window", Encode([]Definition{night}), "2027-01-01T12:00:00Z", false, "2027-01-01T22:00:00Z", "outside of the change windows of this cluster: the next one opens at 2027-01-01T22:00:00Z"},
		"Union":     {"two windows that overlap are one", Encode([]Definition{night, late}), "2027-01-01T22:30:00Z", true, "2027-01-02T02:00:00Z", ""},
		"Either":    {"the earlier one opens", Encode([]Definition{night, frozen}), "2027-01-01T00:30:00Z", false, "2027-01-01T12:00:00Z", "outside of the change windows of this cluster: the next one opens at 2027-01-01T12:00:00Z"},
		"Broken":    {"one that cannot be read never opens", Encode([]Definition{broken}), "2027-01-01T12:00:00Z", false, "0001-01-01T00:00:00Z", `outside of the change windows of this cluster, and none opens: schedule "broken": it cannot be used, its condition Ready says why`},
		"BrokenToo": {"it does not close the windows of another", Encode([]Definition{broken, night}), "2027-01-01T23:00:00Z", true, "2027-01-02T00:00:00Z", ""},
		"NoJSON":    {"a form of a later version", "v2:...", "2027-01-01T12:00:00Z", false, "0001-01-01T00:00:00Z", "outside of the change windows of this cluster, and none opens: the windows are not in a form that this version can read"},
		"Unknown":   {"a zone that only the manager knows", `[{"name":"x","schedule":"0 0 1 * * ?","duration":"1h","location":"Moon/Base"}]`, "2027-01-01T12:00:00Z", false, "0001-01-01T00:00:00Z", `outside of the change windows of this cluster, and none opens: schedule "x": unknown time zone "Moon/Base"`},
		"Empty":     {"an empty list has no windows", "[]", "2027-01-01T12:00:00Z", false, "0001-01-01T00:00:00Z", "outside of the change windows of this cluster, and none opens any more"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, now := Decode(c.text), at(t, c.now)
			got := []any{w.Open(now), w.NextChange(now).UTC().Format(time.RFC3339), w.Closed(now)}
			if diff := cmp.Diff([]any{c.open, c.next, c.closed}, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
	if a, b := Encode([]Definition{night, late}), Encode([]Definition{late, night}); a != b {
		t.Errorf("the order of Schedules changes the text:\n%s\n%s", a, b)
	}
	if w := Decode(Encode([]Definition{night, frozen})); !w.Freeze() || Decode(Encode([]Definition{night})).Freeze() {
		t.Error("a cluster is frozen if one of its Schedules asks for it")
	}
	var many []Definition
	for range 10 * MaxSchedules {
		d := night
		d.Name = strings.Repeat("n", 253)
		many = append(many, d)
	}
	if text := Encode(many); len(text) > maxEncoded || !Decode(text).Open(at(t, "2027-01-01T23:00:00Z")) {
		t.Errorf("%d bytes for many Schedules", len(text))
	}
}

func TestOverride(t *testing.T) {
	now := at(t, "2027-01-01T12:00:00Z")
	cases := map[string]struct {
		text   string
		active bool
		err    string
	}{
		"None":     {"", false, ""},
		"Active":   {"2027-01-01T14:00:00Z security fix", true, ""},
		"Zone":     {"2027-01-01T14:00:00+01:00 security fix", true, ""},
		"Over":     {"2027-01-01T12:00:00Z security fix", false, ""},
		"ADay":     {"2027-01-02T12:00:00Z security fix", true, ""},
		"TooLong":  {"2027-01-02T12:00:01Z security fix", false, ""},
		"NoReason": {"2027-01-01T14:00:00Z", false, "gives no reason after the time"},
		"NoTime":   {"security fix", false, "does not begin with a time such as 2006-01-02T15:04:05Z"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := ParseOverride(c.text)
			if o.Active(now) != c.active || errorText(err) != c.err {
				t.Errorf("got active %v, error %q", o.Active(now), errorText(err))
			}
			if next := o.NextChange(now); !next.IsZero() && o.Active(next) == c.active {
				t.Errorf("no change at %s", next)
			}
		})
	}
}

// Expressions of any kind cost bounded time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"0 0 1 * * ?", "* * * * * * *", "0 0 0 30 2 ?", "0 0 0 ? 2 1#5 2023", "0 0 0 L-30 2 ?", "0/1 0-59/2 1,2 LW JAN-DEC ? 1970-3940", "@daily", "0 0 0 29W 2 ?",
	} {
		f.Add(seed, int64(1800000000), "1h")
	}
	f.Fuzz(func(t *testing.T, cron string, now int64, duration string) {
		s, err := Parse(Definition{Cron: cron, Duration: duration, Location: "Europe/Berlin"})
		if err != nil {
			return
		}
		at := time.Unix(now%4000000000, 0)
		_ = s.Check()
		open := s.Open(at)
		if next := s.NextOpen(at); !next.IsZero() && (!next.After(at) || !s.Open(next)) {
			t.Fatalf("%q opens at %s, asked at %s", cron, next, at)
		}
		if next := s.NextChange(at); !next.IsZero() && !next.After(at) {
			t.Fatalf("%q (open %v) changes at %s, asked at %s", cron, open, next, at)
		}
	})
}

func BenchmarkNever(b *testing.B) {
	s, err := Parse(Definition{Cron: "0 0 0 30 2 ?", Duration: "2562047h"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.NextChange(time.Unix(1800000000, 0))
	}
}
