package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)

func record(ago ...time.Duration) string {
	text := ""
	for _, d := range ago {
		text = Add(text, now.Add(-d))
	}
	return text
}

func TestLoopOf(t *testing.T) {
	const m = time.Minute
	cases := map[string]struct {
		why    string
		record string
		want   Loop
	}{
		"FiveTimes": {why: "every minute", record: record(5*m, 4*m, 3*m, 2*m, m), want: Loop{"p", 5, now.Add(-5 * m), now.Add(-m)}},
		"BackOff":   {why: "Kubernetes waits five minutes between two starts", record: record(40*m, 16*m, 11*m, 5*m), want: Loop{"p", 3, now.Add(-16 * m), now.Add(-5 * m)}},
		"Once":      {why: "a node was lost", record: record(m)},
		"Twice":     {why: "a node was drained badly", record: record(2*m, m)},
		"Healed":    {why: "it has lived for ten minutes", record: record(14*m, 13*m, 12*m, 11*m)},
		"LongAgo":   {why: "a bad day, long ago", record: record(500*m, 400*m, 300*m, m)},
		"Garbage":   {why: "another client has written the annotation", record: "x,,2026," + strings.Repeat("y", 100)},
		"Future":    {why: "the clock was wrong", record: record(-60*m, -61*m, -62*m)},
		"None":      {why: "it never died"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := LoopOf("p", c.record, now)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != (c.want != Loop{}) {
				t.Errorf("%s: %t\n-want +got\n%s", c.why, ok, diff)
			}
		})
	}
}

func TestAddKeepsTheNewest(t *testing.T) {
	text := "garbage"
	for i := range 100 {
		text = Add(text, now.Add(time.Duration(i)*time.Second))
	}
	times := Parse(text)
	if len(times) != kept || !times[kept-1].Equal(now.Add(99*time.Second)) || len(text) > 300 {
		t.Errorf("got %d times in %q", len(times), text)
	}
}
