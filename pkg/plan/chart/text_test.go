package chart

import (
	"strings"
	"testing"
)

// What a parser says at length is cut at a space.
func TestFirstLine(t *testing.T) {
	long := strings.Repeat("the parser says why ", 20)
	got := firstLine(long + "\nmore")
	if want := strings.Repeat("the parser says why ", 9) + "the parser says why…"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := firstLine("short\nmore"); got != "short" {
		t.Errorf("got %q", got)
	}
}
