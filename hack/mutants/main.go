// Command mutants proves that the unit tests notice when a rule is broken. It applies
// the mutations of mutants.yaml, one at a time, to copies of the files, runs the unit
// tests of the package with each, and prints those that no test notices.
//
//	go run ./hack/mutants                all of them
//	go run ./hack/mutants -match budget  only those whose file or text matches a regexp
//
// The work tree is not changed: go test reads the changed file through -overlay. It
// exits with 1 if a mutation survives, does not compile, or does not apply.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

//go:embed mutants.yaml
var list []byte

// mutation is one entry of mutants.yaml.
type mutation struct {
	// File is the path of a Go file, relative to the module.
	File string `json:"file"`
	// Old is text that stands in it exactly once, New what takes its place.
	Old string `json:"old"`
	New string `json:"new"`
	// Breaks is what would go wrong for a user.
	Breaks string `json:"breaks"`
	// Packages are the packages whose tests are run, relative to the module.
	// Default: the package of File.
	Packages []string `json:"packages,omitempty"`
}

func (m mutation) String() string {
	return fmt.Sprintf("%s: %q becomes %q: %s", m.File, m.Old, m.New, m.Breaks)
}

func main() {
	match := flag.String("match", "", "only mutations whose file or text matches this `regexp`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *match); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, match string) error {
	all, err := parse(list)
	if err != nil {
		return err
	}
	chosen, err := choose(all, match)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var survivors, broken []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, m := range chosen {
		group.Go(func() error {
			survives, err := try(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				broken = append(broken, m.String())
				fmt.Printf("BROKEN    %s\n  %v\n", m, err)
			case survives:
				survivors = append(survivors, m.String())
				fmt.Println("SURVIVES ", m)
			default:
				fmt.Println("killed   ", m.File, "-", m.Breaks)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("mutants: %d mutations, %d survive, %d do not apply or compile\n", len(chosen), len(survivors), len(broken))
	if len(survivors)+len(broken) > 0 {
		return errors.New("the unit tests do not notice every mutation")
	}
	return nil
}

// parse reads mutants.yaml.
func parse(text []byte) ([]mutation, error) {
	var out []mutation
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		return nil, fmt.Errorf("read mutants.yaml: %w", err)
	}
	for _, m := range out {
		if m.File == "" || m.Old == "" || m.Old == m.New || m.Breaks == "" {
			return nil, fmt.Errorf("mutants.yaml: want file, old, new and breaks: %s", m)
		}
	}
	return out, nil
}

func choose(all []mutation, match string) ([]mutation, error) {
	re, err := regexp.Compile(match)
	if err != nil {
		return nil, fmt.Errorf("-match: %w", err)
	}
	var out []mutation
	for _, m := range all {
		if re.MatchString(m.String()) {
			out = append(out, m)
		}
	}
	return out, nil
}

// apply returns the text of a file with the mutation.
func (m mutation) apply(text string) (string, error) {
	if n := strings.Count(text, m.Old); n != 1 {
		return "", fmt.Errorf("%q stands %d times in the file, want once", m.Old, n)
	}
	return strings.Replace(text, m.Old, m.New, 1), nil
}

// try reports whether all tests pass with the mutation. The error says that it does
// not apply or compile.
func try(ctx context.Context, m mutation) (survives bool, err error) {
	text, err := os.ReadFile(m.File)
	if err != nil {
		return false, err
	}
	mutated, err := m.apply(string(text))
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "fleet-mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, m.File, mutated)
	if err != nil {
		return false, err
	}
	packages := m.Packages
	if len(packages) == 0 {
		packages = []string{path.Dir(m.File)}
	}
	for i, p := range packages {
		packages[i] = "./" + strings.TrimPrefix(p, "./")
	}
	out, err := goTest(ctx, overlay, packages)
	if strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
		return false, fmt.Errorf("does not compile: %s", out)
	}
	return err == nil, nil
}

// writeOverlay writes the mutated file and the file that -overlay wants, and returns
// the path of that.
func writeOverlay(dir, file, text string) (string, error) {
	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// goTest runs the tests of packages with an overlay and returns what go test prints.
func goTest(ctx context.Context, overlay string, packages []string) (string, error) {
	args := []string{"test", "-count=1", "-failfast", "-timeout=10m", "-trimpath", "-ldflags=-s", "-overlay=" + overlay}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
