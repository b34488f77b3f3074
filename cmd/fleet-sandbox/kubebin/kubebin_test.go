package kubebin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// TestMeter feeds a meter with what go prints.
func TestMeter(t *testing.T) {
	cases := map[string]struct {
		why    string
		total  int
		output string
		want   Progress
		kept   []string
	}{
		"Downloads": {
			why:    "a fresh machine fetches modules before anything else",
			output: "go: downloading k8s.io/api v0.36.3\ngo: downloading k8s.io/apimachinery v0.36.3\n",
			want:   Progress{Fetched: 2},
		},
		"Packages": {
			why:    "each compiled package is one line",
			total:  4,
			output: "internal/cpu\nk8s.io/api/core/v1\n",
			want:   Progress{Built: 2, Total: 4},
		},
		"Links": {
			why:    "after the last package nothing is printed for some seconds",
			total:  1,
			output: "example.com/kubernetes\n",
			want:   Progress{Built: 1, Total: 1, Linking: true},
		},
		"NeverMoreThanAll": {
			why:    "640 of 639 would look broken",
			total:  1,
			output: "a\nb\n",
			want:   Progress{Built: 1, Total: 1, Linking: true},
		},
		"Errors": {
			why:    "what is neither is kept for the case that the build fails",
			total:  9,
			output: "a/b\n# a/b\n./x.go:3:1: undefined: y\nno space left on device\n",
			want:   Progress{Built: 1, Total: 9},
			kept:   []string{"# a/b", "./x.go:3:1: undefined: y", "no space left on device"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got Progress
			m := &meter{report: func(p Progress) { got = p }}
			m.update(func(p *Progress) { p.Total = c.total })
			w := lineWriter(m.line)
			for i := range c.output { // in pieces, as a pipe delivers it
				if _, err := w.Write([]byte{c.output[i]}); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.kept, m.output); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func FuzzMeter(f *testing.F) {
	f.Add("go: downloading x v1\nx/y\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := &meter{}
		m.update(func(p *Progress) { p.Total = 3 })
		if n, err := lineWriter(m.line).Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("write %d of %d bytes: %v", n, len(text), err)
		}
		if m.now.Built > m.now.Total {
			t.Errorf("built %d of %d", m.now.Built, m.now.Total)
		}
	})
}

func TestProgressText(t *testing.T) {
	cases := map[string]struct {
		p    Progress
		want string
	}{
		"Start":    {Progress{}, "checking what has changed"},
		"Fetching": {Progress{Fetched: 57}, "57 modules fetched"},
		"Building": {Progress{Fetched: 57, Built: 640, Total: 2210}, "640 of 2210 packages"},
		"Linking":  {Progress{Built: 2210, Total: 2210, Linking: true}, "2210 of 2210 packages, linking"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.p.String(); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}

// TestLockWaits: two sandboxes started at once must not build twice.
func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("test over"))
	defer cancel()
	if _, err := lock(ctx, path); err == nil {
		t.Fatal("two hold the lock")
	}
	unlock()
	again, err := lock(t.Context(), path)
	if err != nil {
		t.Fatalf("lock that was given back: %v", err)
	}
	again()
}

// TestTarget: the executable's name must change with all that changes it.
func TestTarget(t *testing.T) {
	root := t.TempDir()
	b := Builder{Root: root, Cache: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(b.module(), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.module(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := func() string {
		t.Helper()
		path, err := b.target(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("go.mod", "module x\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n")
	write("go.sum", "")
	write("main.go", "package main")
	seen := map[string]string{name(): "start"}
	for _, change := range []struct{ file, text string }{
		{"main.go", "package main // changed"},
		{"parts.go", "package main"},
		{"go.sum", "x"},
		{"go.mod", "module x\n\ngo 1.26.0\n"},
	} {
		write(change.file, change.text)
		if before, ok := seen[name()]; ok {
			t.Errorf("change of %s: same name as after %s", change.file, before)
		}
		seen[name()] = change.file
	}
	if _, err := b.Cached(t.Context()); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("want ErrNotBuilt, got %v", err)
	}
}

func TestVersionIsRead(t *testing.T) {
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Builder{Root: root}.Version()
	if err != nil || !strings.HasPrefix(got, "v1.") {
		t.Errorf("want v1.something, got %q, %v", got, err)
	}
}

// TestFailureShowsOutput: the last lines of the compiler are what helps.
func TestFailureShowsOutput(t *testing.T) {
	root := t.TempDir()
	for _, name := range Programs {
		dir := filepath.Join(root, "cmd", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() { undefined() }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Builder{Root: root, Cache: t.TempDir()}.Fleet(t.Context())
	var failure *Failure
	if !errors.As(err, &failure) || len(failure.Details()) == 0 {
		t.Fatalf("want a Failure with details, got %v", err)
	}
}
