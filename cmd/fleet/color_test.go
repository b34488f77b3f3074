package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// codes are the escape sequences that colours are made of.
var codes = regexp.MustCompile("\x1b\\[(31|32|33|0)m")

// A terminal shows states in colours, and else the same text; what is no terminal,
// and a terminal that shall have none, gets no escape sequence.
func TestColors(t *testing.T) {
	for _, c := range []struct {
		why     string
		args    []string
		columns int
		colors  bool
		want    []string // none: no colours
	}{
		{"a table on a terminal", []string{"get", "clusters"}, 120, true, []string{printer.Green + "Ready" + printer.Plainly, printer.Red + "ErrApplied" + printer.Plainly}},
		{"status on a terminal", []string{"status"}, 120, true, []string{"  " + printer.Red + "ErrApplied" + printer.Plainly + "  examples-web"}},
		{"an explanation on a terminal", []string{"explain", "examples-web", "c3", "--all"}, 120, true, []string{"  " + printer.Green + "ok" + printer.Plainly + "    source"}},
		{"no terminal", []string{"get", "clusters"}, 0, true, nil},
		{"NO_COLOR or a dumb terminal", []string{"get", "clusters"}, 120, false, nil},
		{"--color=never", []string{"get", "clusters", "--color=never"}, 120, true, nil},
		{"--color=always", []string{"get", "clusters", "--color=always"}, 0, false, []string{printer.Green + "Ready" + printer.Plainly}},
		{"a document", []string{"get", "clusters", "-o", "json", "--color=always"}, 120, true, nil},
	} {
		st := &stage{columns: c.columns}
		st.set(t, []string{"fleet:", "examples.yaml"})
		uncolored := st.run(t, append(slices.Clone(c.args), "--color=never"))
		st.colors = c.colors
		got := st.run(t, c.args)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in %q", c.why, w, got)
			}
		}
		if strings.Contains(got, printer.Yellow+"STATE") {
			t.Errorf("%s: the title has a colour: %q", c.why, got)
		}
		if len(c.want) == 0 && strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", c.why, got)
		}
		if text := codes.ReplaceAllString(got, ""); text != uncolored {
			t.Errorf("%s: without its colours %q, want %q", c.why, text, uncolored)
		}
	}
}

// NO_COLOR and TERM=dumb are taken from the environment.
func TestColorsOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		noColor, term string
		plain         bool
	}{{"", "xterm", false}, {"1", "xterm", true}, {"", "dumb", true}} {
		env := map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}
		if got := printer.PlainTerminal(func(key string) string { return env[key] }); got != c.plain {
			t.Errorf("%v: got %t", env, got)
		}
	}
	st := &stage{}
	if out := st.run(t, []string{"version", "--color", "pink"}); !strings.Contains(out, "want auto, always or never") {
		t.Errorf("got %q", out)
	}
}

// Text of objects brings no escape sequence to a terminal that has colours.
func TestColorsAreOurs(t *testing.T) {
	for how := range poisons {
		st := &stage{columns: 120, colors: true}
		st.set(t, []string{"fleet:", "examples.yaml"})
		for _, s := range st.fake.steps {
			poisonAll(how, s.objects)
		}
		for _, args := range [][]string{{"get", "bundles"}, {"get", "deployments", "-o", "wide"}, {"status"}, {"events"}, {"explain", "examples-web", "c3"}, {"check"}} {
			if text := bad(codes.ReplaceAllString(st.run(t, args), "")); text != "" {
				t.Errorf("%s: fleet %s: %q", how, strings.Join(args, " "), text)
			}
		}
	}
}
