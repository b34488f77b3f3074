package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxExpression is how long a cron expression may be, in bytes.
const MaxExpression = 256

// Years that an expression may name.
const (
	firstYear = 1970
	lastYear  = 2 * firstYear
)

// An expression is a parsed cron expression. Its lists are sorted and not empty, except
// years, which is empty for every year.
type expression struct {
	seconds, minutes, hours []int
	months                  []int
	years                   []int
	days                    days
}

// days selects days of a month.
type days struct {
	ofMonth []int // nil: every day, or one of the rules below
	ofWeek  []int // 0 is Sunday; nil: every day of the week
	nth     int   // with one day of the week: the nth of the month, -1 for the last; 0: every one
	last    bool  // the last day of the month, less before
	before  int
	nearest int // the weekday nearest to this day; 0: none
}

// special are names for expressions.
var special = map[string]string{
	"@yearly":  "0 0 0 1 1 *",
	"@monthly": "0 0 0 1 * *",
	"@weekly":  "0 0 0 * * 1",
	"@daily":   "0 0 0 * * *",
	"@hourly":  "0 0 * * * *",
}

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

// A field describes the values of one field of an expression.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

// The fields, in order.
var (
	secondField  = field{name: "second", max: 59}
	minuteField  = field{name: "minute", max: 59}
	hourField    = field{name: "hour", max: 23}
	dayField     = field{name: "day of month", min: 1, max: 31}
	monthField   = field{name: "month", min: 1, max: 12, names: monthNames}
	weekdayField = field{name: "day of week", min: 1, max: 7, names: dayNames}
	yearField    = field{name: "year", min: firstYear, max: lastYear}
)

// parseExpression parses a cron expression in the form of Quartz: second, minute, hour, day
// of month, month, day of week and, optionally, year.
func parseExpression(text string) (*expression, error) {
	if len(text) > MaxExpression {
		return nil, fmt.Errorf("parse cron expression: it has %d characters, at most %d are allowed", len(text), MaxExpression)
	}
	if full, ok := special[strings.TrimSpace(text)]; ok {
		text = full
	}
	tokens := strings.Fields(text)
	if len(tokens) < 6 || len(tokens) > 7 {
		return nil, fmt.Errorf("parse cron expression: it has %d fields, want 6 or 7: seconds first", len(tokens))
	}
	if !isAny(tokens[3]) && !isAny(tokens[5]) {
		return nil, fmt.Errorf("parse cron expression: day field set twice: day of month %q and day of week %q", tokens[3], tokens[5])
	}
	e := &expression{}
	for i, f := range []struct {
		field
		out *[]int
	}{{secondField, &e.seconds}, {minuteField, &e.minutes}, {hourField, &e.hours}} {
		if err := f.parse(tokens[i], f.out); err != nil {
			return nil, err
		}
	}
	if err := monthField.parse(tokens[4], &e.months); err != nil {
		return nil, err
	}
	if len(tokens) == 7 && !isAny(tokens[6]) {
		if err := yearField.parse(tokens[6], &e.years); err != nil {
			return nil, err
		}
	}
	if err := e.days.parseOfMonth(tokens[3]); err != nil {
		return nil, err
	}
	return e, e.days.parseOfWeek(tokens[5])
}

// isAny reports whether a field does not restrict anything.
func isAny(token string) bool { return token == "*" || token == "?" }

// fault returns the error of a field.
func (f field) fault(token string) error {
	return fmt.Errorf("parse cron expression: invalid %s %q", f.name, token)
}

// parse sets out to the sorted values of a field.
func (f field) parse(token string, out *[]int) error {
	seen := map[int]bool{}
	for _, part := range strings.Split(token, ",") {
		from, to, step, err := f.span(part)
		if err != nil {
			return err
		}
		for v := from; v <= to; v += step {
			seen[v] = true
		}
	}
	*out = (*out)[:0]
	for v := range seen {
		*out = append(*out, v)
	}
	slices.Sort(*out)
	return nil
}

// span parses an element of a list: a value, a range, or one of them with a step.
func (f field) span(part string) (from, to, step int, err error) {
	span, stepText, stepped := strings.Cut(part, "/")
	step = 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.max {
			return 0, 0, 0, f.fault(part)
		}
	}
	first, second, ranged := strings.Cut(span, "-")
	switch {
	case span == "*" || span == "?" && !stepped:
		return f.min, f.max, step, nil
	case ranged:
		from, err = f.value(first)
		if err == nil {
			to, err = f.value(second)
		}
	default:
		from, err = f.value(first)
		if to = from; stepped {
			to = f.max
		}
	}
	if err != nil || to < from {
		return 0, 0, 0, f.fault(part)
	}
	return from, to, step, nil
}

// value parses one number or name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.min || v > f.max {
		return 0, f.fault(text)
	}
	return v, nil
}

// parseOfMonth parses the field for days of the month: numbers, L, L-n, nW or LW.
func (d *days) parseOfMonth(token string) error {
	switch back, isLast := strings.CutPrefix(token, "L-"); {
	case isAny(token):
		return nil
	case token == "L":
		d.last = true
		return nil
	case token == "LW":
		d.nearest = dayField.max
		return nil
	case isLast:
		n, err := dayField.value(back)
		d.last, d.before = true, n
		return err
	}
	if day, ok := strings.CutSuffix(token, "W"); ok {
		n, err := dayField.value(day)
		d.nearest = n
		return err
	}
	return dayField.parse(token, &d.ofMonth)
}

// parseOfWeek parses the field for days of the week: numbers and names, nL, L or n#m.
func (d *days) parseOfWeek(token string) error {
	if isAny(token) {
		return nil
	}
	if day, nth, ok := strings.Cut(token, "#"); ok {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 || n > 5 {
			return weekdayField.fault(token)
		}
		d.nth, token = n, day
	} else if day, ok := strings.CutSuffix(token, "L"); ok {
		if d.nth, token = -1, day; token == "" {
			token = "SAT"
		}
	}
	if d.nth != 0 {
		if _, err := weekdayField.value(token); err != nil {
			return err
		}
	}
	if err := weekdayField.parse(token, &d.ofWeek); err != nil {
		return err
	}
	for i := range d.ofWeek {
		d.ofWeek[i]--
	}
	return nil
}

// in returns the selected days of a month as bits: bit 1 is the first day.
func (d *days) in(year int, month time.Month) (selected uint32) {
	first := int(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday())
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	weekday := func(day int) int { return (first + day - 1) % 7 }
	switch {
	case d.last:
		if day := last - d.before; day >= 1 {
			return 1 << day
		}
		return 0
	case d.nearest > 0:
		return 1 << nearestWeekday(min(d.nearest, last), last, weekday)
	}
	for day := 1; day <= last; day++ {
		if d.ofMonth != nil && !slices.Contains(d.ofMonth, day) || d.ofWeek != nil && !slices.Contains(d.ofWeek, weekday(day)) {
			continue
		}
		if d.nth > 0 && (day-1)/7 != d.nth-1 || d.nth < 0 && day+7 <= last {
			continue
		}
		selected |= 1 << day
	}
	return selected
}

// nearestWeekday returns the day from Monday to Friday of the same month that is nearest to
// a day.
func nearestWeekday(day, last int, weekday func(day int) int) int {
	switch time.Weekday(weekday(day)) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return day - 2
		}
		return day + 1
	}
	return day
}

// hasYear reports whether an expression has days in a year.
func (e *expression) hasYear(year int) bool {
	if len(e.years) == 0 {
		return year >= firstYear && year <= lastYear
	}
	_, ok := slices.BinarySearch(e.years, year)
	return ok
}

// daysIn returns the days of a month on which windows open, as bits.
func (e *expression) daysIn(year int, month time.Month) uint32 {
	if !e.hasYear(year) {
		return 0
	}
	if _, ok := slices.BinarySearch(e.months, int(month)); !ok {
		return 0
	}
	return e.days.in(year, month)
}

// size returns how often windows open on a day.
func (e *expression) size() int { return len(e.hours) * len(e.minutes) * len(e.seconds) }

// at returns the time of day, in seconds, at which the window with index i opens.
func (e *expression) at(i int) int {
	s, m, h := i%len(e.seconds), i/len(e.seconds)%len(e.minutes), i/len(e.seconds)/len(e.minutes)
	return e.hours[h]*3600 + e.minutes[m]*60 + e.seconds[s]
}
