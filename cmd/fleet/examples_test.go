package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// The example repository that Fleet's users start from, and what rancher/fleet
// makes of its directories. They are no part of the project.
const examples = "../../../shared/data"

// Each directory of the examples gives the Bundles that rancher/fleet makes of
// it, through the command in the README of the data.
func TestExamples(t *testing.T) {
	repo, err := filepath.Abs(filepath.Join(examples, "fleet-examples"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(repo); errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the examples of Fleet's users in ../shared/data, which are not here")
	}
	expected, err := filepath.Glob(filepath.Join(repo, "../fleet-examples-bundles/*.yaml"))
	if err != nil || len(expected) == 0 {
		t.Fatalf("no expected bundles: %v", err)
	}
	found := 0
	dirs, err := filepath.Glob(filepath.Join(repo, "*"))
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob(filepath.Join(repo, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(dirs, below...) {
		dir, err := filepath.Rel(repo, path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() || dir == "single-cluster" || dir == "multi-cluster" {
			continue
		}
		t.Run(strings.ReplaceAll(dir, "/", "-"), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(repo, "../fleet-examples-bundles", strings.ReplaceAll(dir, "/", "-")+".yaml"))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip("the data has no result for it: it needs charts or repositories of the outside world")
			}
			if err != nil {
				t.Fatal(err)
			}
			found++
			out, notes, err := applyDir(t, repo, "-n", "fleet-default", "--commit", strings.Repeat("0", 40), "-o", "-", "case", dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, notes)
			}
			if diff := cmp.Diff(parsed(t, want), parsed(t, []byte(out))); diff != "" {
				t.Errorf("-reference +this\n%s", diff)
			}
		})
	}
	if found != len(expected) {
		t.Errorf("%d of %d results were compared", found, len(expected))
	}
}

// parsed are the documents of a stream.
func parsed(t *testing.T, text []byte) []any {
	t.Helper()
	var out []any
	for decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var doc any
		err := decode.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
}
