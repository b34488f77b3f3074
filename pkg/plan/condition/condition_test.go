package condition_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

func TestSet(t *testing.T) {
	const before, now = "2020-01-01T00:00:00Z", "2020-01-01T00:10:00Z"
	clock := time.Date(2020, 1, 1, 1, 10, 0, 0, time.FixedZone("CET", 3600))
	ready := fleet.Condition{Type: "Ready", Status: "True", Reason: "R", Message: "m", ObservedGeneration: 3,
		LastUpdateTime: before, LastTransitionTime: before}
	with := func(f func(*fleet.Condition)) fleet.Condition {
		c := ready
		f(&c)
		return c
	}
	tests := map[string]struct {
		list []fleet.Condition
		set  fleet.Condition
		want fleet.Condition
		why  string
	}{
		"New": {nil, ready,
			with(func(c *fleet.Condition) { c.LastUpdateTime, c.LastTransitionTime = now, now }),
			"times of the caller do not count"},
		"Same": {[]fleet.Condition{ready}, with(func(c *fleet.Condition) { c.LastUpdateTime, c.LastTransitionTime = "", "" }),
			ready, "the same state must give the same bytes, or every run writes"},
		"Message": {[]fleet.Condition{ready}, with(func(c *fleet.Condition) { c.Message = "n" }),
			with(func(c *fleet.Condition) { c.Message, c.LastUpdateTime = "n", now }),
			"since when it is ready does not change with the text"},
		"Reason": {[]fleet.Condition{ready}, with(func(c *fleet.Condition) { c.Reason = "S" }),
			with(func(c *fleet.Condition) { c.Reason, c.LastUpdateTime = "S", now }), "as with the text"},
		"Generation": {[]fleet.Condition{ready}, with(func(c *fleet.Condition) { c.ObservedGeneration = 4 }),
			with(func(c *fleet.Condition) { c.ObservedGeneration, c.LastUpdateTime = 4, now }),
			"kstatus compares the generation"},
		"Status": {[]fleet.Condition{ready}, with(func(c *fleet.Condition) { c.Status = "False" }),
			with(func(c *fleet.Condition) { c.Status, c.LastUpdateTime, c.LastTransitionTime = "False", now, now }),
			"a transition"},
		"WithoutTimes": {[]fleet.Condition{with(func(c *fleet.Condition) { c.LastUpdateTime, c.LastTransitionTime = "", "" })}, ready,
			with(func(c *fleet.Condition) { c.LastUpdateTime, c.LastTransitionTime = now, now }),
			"others may have left the times out"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			list := append([]fleet.Condition{{Type: "Other"}}, c.list...)
			kept := slices.Clone(list)
			got := condition.Set(list, c.set, clock)
			if diff := cmp.Diff([]fleet.Condition{{Type: "Other"}, c.want}, got); diff != "" {
				t.Errorf("%s\n-want +got: %s", c.why, diff)
			}
			if diff := cmp.Diff(kept, list); diff != "" {
				t.Errorf("the argument changed: %s", diff)
			}
			again := condition.Set(got, c.set, clock.Add(time.Hour))
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a second time it differs: %s", diff)
			}
		})
	}
}

// A condition that has the status now is reported if it was another one before.
func TestTurned(t *testing.T) {
	bad := fleet.Condition{Type: "Accepted", Status: corev1.ConditionFalse, Reason: "R", Message: "m"}
	with := func(change func(*fleet.Condition)) []fleet.Condition {
		c := bad
		change(&c)
		return []fleet.Condition{c}
	}
	same := with(func(c *fleet.Condition) { c.LastUpdateTime, c.ObservedGeneration = "later", 7 })
	for name, c := range map[string]struct {
		old, now []fleet.Condition
		want     bool
	}{
		"New":     {nil, same, true},
		"Same":    {[]fleet.Condition{bad}, same, false},
		"Status":  {with(func(c *fleet.Condition) { c.Status = corev1.ConditionTrue }), same, true},
		"Reason":  {with(func(c *fleet.Condition) { c.Reason = "S" }), same, true},
		"Message": {with(func(c *fleet.Condition) { c.Message = "n" }), same, true},
		"Good":    {same, with(func(c *fleet.Condition) { c.Status = corev1.ConditionTrue }), false},
		"Gone":    {same, nil, false},
		"Other":   {nil, with(func(c *fleet.Condition) { c.Type = "Ready" }), false},
	} {
		got := condition.Turned(c.old, c.now, "Accepted", corev1.ConditionFalse)
		if (got != nil) != c.want || got != nil && *got != c.now[0] {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestFindAndRemove(t *testing.T) {
	list := []fleet.Condition{{Type: "A", Status: "True"}, {Type: "B", Status: "False"}, {Type: "C", Status: "Unknown"}}
	if c := condition.Find(list, "B"); c == nil || c.Type != "B" {
		t.Errorf("found %v", c)
	}
	if condition.Find(list, "D") != nil {
		t.Error("found what is not there")
	}
	for conditionType, want := range map[string][2]bool{"A": {true, false}, "B": {false, true}, "C": {}, "D": {}} {
		if got := [2]bool{condition.IsTrue(list, conditionType), condition.IsFalse(list, conditionType)}; got != want {
			t.Errorf("%s: true and false are %v", conditionType, got)
		}
	}
	rest := condition.Remove(list, "A")
	if len(rest) != 2 || len(list) != 3 || list[0].Type != "A" {
		t.Errorf("removed: %v from %v", rest, list)
	}
}

func TestMessage(t *testing.T) {
	long := strings.Repeat("ä", 1100)
	words := strings.Repeat("why it fails ", 100)
	tests := map[string]struct{ in, want string }{
		"Plain":    {"all is well", "all is well"},
		"Lines":    {" a\n\tb\r\n\nc ", "a b c"},
		"Broken":   {"a\xffb", "a?b"},
		"Long":     {words, strings.Repeat("why it fails ", 78) + "why it…"},
		"OneWord":  {long, strings.Repeat("ä", 1023) + "…"},
		"Control":  {"a\x1b[2Jb\a\u202ec\u009b", `a\u001b[2Jb\u0007\u202ec\u009b`},
		"JustFit":  {long[:2048], strings.Repeat("ä", 1024)},
		"CutWord":  {strings.Repeat("a", 1022) + " bbb", strings.Repeat("a", 1022) + "…"},
		"LastWord": {strings.Repeat("a", 600) + " " + strings.Repeat("b", 500), strings.Repeat("a", 600) + "…"},
		"FarSpace": {"open: " + long, "open: " + strings.Repeat("ä", 1017) + "…"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got := condition.Message(c.in)
			if got != c.want || utf8.RuneCountInString(got) > condition.MessageLimit {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again := condition.Message(got); again != got {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
}

// Cut leaves what fits, and ends at a space otherwise.
func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"one two":         "one two",
		"one two three":   "one two…",
		"one two, three":  "one two…",
		"one twothree":    "one twoth…",
		"onetwothreefour": "onetwothr…",
	} {
		if got := condition.Cut(in, 10); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
