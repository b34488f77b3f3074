package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 8, 24, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestAdd(t *testing.T) {
	wait := Entry{Deployment: "web", Verb: "hold", Reason: "ContentMissing", Message: "the manager does not have content s-1"}
	install := Entry{Deployment: "web", Verb: "install", Reason: "New"}
	when := func(e Entry, seconds int) Entry { e.At = at(seconds); return e }
	cases := map[string]struct {
		why     string
		add     []Entry
		changes []bool
		want    string
	}{
		"InOrder": {
			why:     "one line each, the newest last",
			add:     []Entry{when(wait, 1), when(install, 2)},
			changes: []bool{true, true},
			want:    "2026-08-24T12:00:01Z web hold ContentMissing 1 the manager does not have content s-1\n2026-08-24T12:00:02Z web install New 1\n",
		},
		"Folded": {
			why:     "a wait that is looked at again and again is one line",
			add:     []Entry{when(wait, 1), when(wait, 3), when(wait, 5)},
			changes: []bool{true, false, false},
			want:    "2026-08-24T12:00:05Z web hold ContentMissing 3@2026-08-24T12:00:01Z the manager does not have content s-1\n",
		},
		"FoldedAmongOthers": {
			why:     "two deployments that fail in turns are two lines, not a hundred",
			add:     []Entry{when(wait, 1), when(install, 2), when(wait, 3), when(install, 4)},
			changes: []bool{true, true, false, false},
			want: "2026-08-24T12:00:03Z web hold ContentMissing 2@2026-08-24T12:00:01Z the manager does not have content s-1\n" +
				"2026-08-24T12:00:04Z web install New 2@2026-08-24T12:00:02Z\n",
		},
		"OneLine": {
			why:     "a message of several lines, with characters that would move the cursor, is one line of plain text",
			add:     []Entry{{At: at(0), Verb: "fail", Message: "first\nsecond\t\x1b[31mthird\x00"}},
			changes: []bool{true},
			want:    "2026-08-24T12:00:00Z - fail - 1 first second [31mthird\n",
		},
		"Long": {
			why:     "a line is bounded, and ends in a whole character",
			add:     []Entry{{At: at(0), Verb: "fail", Message: strings.Repeat("ä", 300)}},
			changes: []bool{true},
			want:    "2026-08-24T12:00:00Z - fail - 1 " + strings.Repeat("ä", 98) + "…\n",
		},
		"ClockSetBack": {
			why:     "the time of the last one never goes back",
			add:     []Entry{when(install, 9), when(install, 2)},
			changes: []bool{true, false},
			want:    "2026-08-24T12:00:09Z web install New 2@2026-08-24T12:00:09Z\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var j Journal
			var changes []bool
			for _, e := range c.add {
				changes = append(changes, j.Add(e))
			}
			if diff := cmp.Diff(c.want, Text(j.Entries())); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.changes, changes); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// full is a journal with more than it can hold, of lines that do not compress
// well.
func full() *Journal {
	var j Journal
	for i := range 70 {
		j.Add(Entry{
			At: at(i), Deployment: fmt.Sprintf("shop-%d-%x", i, i*7919*7919), Verb: "upgrade", Reason: "Changed",
			Message: fmt.Sprintf("revision %d, commit %07x, %.1fs", i, i*104729*31337, float64(i)*1.7),
		})
	}
	return &j
}

func TestBounds(t *testing.T) {
	entries := full().Entries()
	if len(entries) != MaxLines || entries[0].At != at(20) {
		t.Fatalf("want the last %d, got %d from %s", MaxLines, len(entries), entries[0].At)
	}
	for _, limit := range []int{PackedLimit, 700, 200} {
		packed, err := Pack(entries, limit)
		if err != nil || len(packed) > limit {
			t.Fatalf("packed into %d bytes of %d: %v", len(packed), limit, err)
		}
		got, err := Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries[len(entries)-len(got):], got); diff != "" {
			t.Errorf("not the newest within %d bytes: -want +got\n%s", limit, diff)
		}
		if limit == PackedLimit && len(got) < 45 {
			t.Errorf("only %d of %d lines fit into %d bytes", len(got), len(entries), limit)
		}
	}
}

func TestRestore(t *testing.T) {
	before := full().Entries()
	var j Journal
	j.Restore(Parse(Text(before)))
	if diff := cmp.Diff(before, j.Entries()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if j.Add(Entry{At: at(100), Deployment: before[9].Deployment, Verb: before[9].Verb, Reason: before[9].Reason, Message: before[9].Message}) {
		t.Error("what was decided before a restart is no news after it")
	}
}

func TestUnpackForeign(t *testing.T) {
	if got, err := Unpack(nil); got != nil || err != nil {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	if _, err := Unpack([]byte("no gzip")); err == nil {
		t.Error("want an error for what is no gzip")
	}
	bomb, err := compress(strings.Repeat("x", 10<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(bomb); !errors.Is(err, ErrTooLong) {
		t.Errorf("want %v, got %v", ErrTooLong, err)
	}
	mixed, err := compress("a line of a newer agent\n2026-08-24T12:00:00Z web install New 1 \x1b[2Jfine\n2026-08-24T12:00:00Z web install New many\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unpack(mixed)
	want := []Entry{{At: noon, First: noon, Times: 1, Deployment: "web", Verb: "install", Reason: "New", Message: "[2Jfine"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2026-08-24T14:03:02Z shop-web correct Modified 3@2026-08-24T14:01:10Z Deployment web/web: spec.replicas\n")
	f.Add("- - - - -\n0000-01-01T00:00:00Z - - - 0@")
	f.Fuzz(func(t *testing.T, text string) {
		entries := Parse(text)
		if diff := cmp.Diff(entries, Parse(Text(entries))); diff != "" {
			t.Errorf("not the same when written and read again: -first +second\n%s", diff)
		}
	})
}
