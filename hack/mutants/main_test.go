package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestList: every mutation applies to the code as it is.
func TestList(t *testing.T) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		text, err := os.ReadFile(filepath.Join("../..", m.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.apply(string(text)); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestParse(t *testing.T) {
	cases := map[string]string{
		"NoReason":   "[{file: a.go, old: x, new: y}]",
		"NoChange":   "[{file: a.go, old: x, new: x, breaks: all}]",
		"NoFile":     "[{old: x, new: y, breaks: all}]",
		"Misspelt":   "[{file: a.go, old: x, new: y, breaks: all, package: b}]",
		"NoYAMLList": "a: b",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := parse([]byte(text)); err == nil {
				t.Errorf("%s gives %v, want an error", text, got)
			}
		})
	}
}
