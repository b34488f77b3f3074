package withdrawal

import (
	"testing"
	"time"
)

func TestCollect(t *testing.T) {
	due := Orphan{Grace: time.Hour, Missing: time.Hour, Orders: true, Own: true}
	with := func(change func(*Orphan)) Orphan {
		o := due
		change(&o)
		return o
	}
	cases := map[string]struct {
		why    string
		orphan Orphan
		want   bool
	}{
		"NotAsked":  {"by default nothing is removed without an order", with(func(o *Orphan) { o.Grace = 0 }), false},
		"Due":       {"an hour of lists without it, and orphans are to be collected", due, true},
		"Early":     {"the manager may be about to write it", with(func(o *Orphan) { o.Missing-- }), false},
		"Reference": {"a manager without identity cannot be distinguished from its backup", with(func(o *Orphan) { o.Orders = false }), false},
		"Stranger":  {"a manager that never had it cannot have given it up", with(func(o *Orphan) { o.Own = false }), false},
		"Restored":  {"what is missing in a backup was made after it", with(func(o *Orphan) { o.Restored = true }), false},
		"Confirmed": {"a person knows better", with(func(o *Orphan) { o.Own, o.Restored, o.Confirmed = false, true, true }), true},
		"TooEarly":  {"but not before the time is over", with(func(o *Orphan) { o.Confirmed, o.Missing = true, 0 }), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, reason := Collect(c.orphan)
			if got != c.want || reason == "" {
				t.Errorf("%s: got %v, %q", c.why, got, reason)
			}
		})
	}
}
