package measure

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0"
	for _, name := range []string{"(gitjob)", "(a ) b)"} {
		got, err := parseStat("42 " + name + rest)
		if err != nil || got != 1750*time.Millisecond {
			t.Errorf("%s: want 1.75s, got %s, %v", name, got, err)
		}
	}
	if _, err := parseStat("42 (gitjob) S 1"); err == nil {
		t.Error("a line cut short was read")
	}
}
