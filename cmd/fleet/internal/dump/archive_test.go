package dump

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Names of files stay in the archive's folder, and different objects have different ones.
func TestFileNames(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"gitrepos", "fleet-local", "web.1"}, {"gitrepos", "..", "/etc/passwd"}, {"gitrepos", "..", "_etc_passwd"}, {"..", "x"}, {"-rf"}, {""},
		{"a\x00b"}, {"a\nb"}, {`a\b`}, {"ä"}, {strings.Repeat("a", 300)}, {strings.Repeat("a", 301)},
	} {
		name := fileName(parts...)
		if name == "" || len(name) > maxNameBytes || strings.ContainsAny(name, "/\\\x00\n") || strings.ContainsAny(name[:1], "-.") {
			t.Errorf("%q: %q is not safe", parts, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", parts, other, name)
		}
		seen[name] = parts
	}
	if seen["gitrepos_fleet-local_web.1"] == nil {
		t.Error("a name of Kubernetes is changed")
	}
}

// Of a long text whole lines are kept: a part of a URL could be a credential that is not recognized.
func TestLinesOfLongTexts(t *testing.T) {
	cases := map[string]struct {
		text   string
		newest bool
		want   string
		fails  error
	}{
		"all":                 {text: "one\ntwo", want: "one\ntwo"},
		"all, newest":         {text: "one\ntwo", newest: true, want: "one\ntwo"},
		"beginning":           {text: "one\ntwo\nthree\n", want: "one\ntwo\n", fails: errTooLong},
		"end":                 {text: "one\ntwo\nthree\n", newest: true, want: "three\n", fails: errTooLong},
		"one long line":       {text: "https://ana:secret@x", want: "", fails: errTooLong},
		"broken":              {text: "one\ntw!", want: "one\n", fails: errBroken},
		"broken, newest":      {text: "one\ntw!", newest: true, want: "one\n", fails: errBroken},
		"exactly":             {text: "one\ntwo\n34", want: "one\ntwo\n34"},
		"exactly, newest":     {text: "one\ntwo\n34", newest: true, want: "one\ntwo\n34"},
		"much longer, newest": {text: strings.Repeat("0123\n", 9) + "end\n", newest: true, want: "0123\nend\n", fails: errTooLong},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var in io.Reader = strings.NewReader(c.text)
			if text, ok := strings.CutSuffix(c.text, "!"); ok {
				in = io.MultiReader(strings.NewReader(text), iotest.ErrReader(errBroken))
			}
			got, err := readLines(in, 10, c.newest)
			if string(got) != c.want || !errors.Is(err, c.fails) {
				t.Errorf("want %q, %v, got %q, %v", c.want, c.fails, got, err)
			}
		})
	}
}

var errBroken = errors.New("connection reset")
