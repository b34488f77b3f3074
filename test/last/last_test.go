package last

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// The longest time that the note waits for other packages to finish.
const timeout = 10 * time.Minute

// TestWhatWasSkipped prints on go test's own stderr how many tests need the
// sandbox's Kubernetes and how to run them, where it is not built.
func TestWhatWasSkipped(t *testing.T) {
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.Cached(t.Context()); err == nil {
		return // nothing was skipped for want of Kubernetes
	}
	skipped, err := needKubernetes(root)
	if err != nil {
		t.Fatal(err)
	}
	if skipped == 0 {
		t.Fatal("no test needs Kubernetes: this count looks in the wrong place")
	}
	note := fmt.Sprintf("\n%d tests on real API servers were skipped: the sandbox's Kubernetes is not built yet.\n"+
		"To build it once and run everything:  go run ./hack/test\n", skipped)
	t.Log(note)
	notCached(t)
	waitForOthers(t)
	report(note)
}

// notCached keeps go test from answering the next time from its cache: it does
// not keep the result of a test that has read what has only just changed.
func notCached(t *testing.T) {
	now := time.Now()
	if err := os.Chtimes("doc.go", now, now); err != nil {
		t.Log(err)
	}
	if _, err := os.ReadFile("doc.go"); err != nil {
		t.Log(err)
	}
}

// needKubernetes counts the tests that start a real control plane.
func needKubernetes(root string) (int, error) {
	count := 0
	err := filepath.WalkDir(filepath.Join(root, "integrationtests"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		n, err := needIn(path)
		count += n
		return err
	})
	return count, err
}

// needIn counts them in the test files of one folder: the tests from which a
// call leads to a function of package harness that asks for Kubernetes. Calls
// are followed by name, also those of methods.
func needIn(dir string) (int, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return 0, err
	}
	calls := map[string]map[string]bool{} // of a function, by name
	var tests []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests = append(tests, f.Name.Name)
			}
			if calls[f.Name.Name] == nil {
				calls[f.Name.Name] = map[string]bool{}
			}
			mention(f.Body, calls[f.Name.Name])
		}
	}
	count := 0
	for _, test := range tests {
		if leads(test, calls, map[string]bool{}) {
			count++
		}
	}
	return count, nil
}

// mention adds the names that a body calls or mentions: "harness.Open" for those
// of another package, "run" for functions and methods.
func mention(body ast.Node, names map[string]bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "harness" {
				names["harness."+n.Sel.Name] = true
			}
			names[n.Sel.Name] = true
		case *ast.Ident:
			names[n.Name] = true
		}
		return true
	})
}

// leads reports whether a function leads to one that asks for Kubernetes.
func leads(name string, calls map[string]map[string]bool, seen map[string]bool) bool {
	for _, asks := range []string{"harness.Open", "harness.Cluster", "harness.Kubernetes"} {
		if calls[name][asks] {
			return true
		}
	}
	seen[name] = true
	for next := range calls[name] {
		if !seen[next] && leads(next, calls, seen) {
			return true
		}
	}
	return false
}

// Tests that need no Kubernetes are not counted, those that need it are,
// however far away the call stands.
func TestNeedIn(t *testing.T) {
	dir := t.TempDir()
	const text = `package x
func TestMain(m *testing.M) { harness.Main(m) }
func TestPure(t *testing.T) { check(t) }
func TestDirect(t *testing.T) { w := harness.Open(t); w.Use() }
func TestFar(t *testing.T) { s := begin(t); s.run() }
func TestTable(t *testing.T) { for _, f := range []func(*testing.T){ opens } { f(t) } }
func begin(t *testing.T) stage { return stage{harness.Cluster(t, "x")} }
func opens(t *testing.T) { begin(t) }
func check(t *testing.T) { check(t); harness.Lines(nil) }
`
	if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := needIn(dir); err != nil || got != 3 {
		t.Errorf("want 3 tests: TestDirect, TestFar, TestTable; got %d, %v", got, err)
	}
}

// waitForOthers returns when go test has no other child left for a while.
func waitForOthers(t *testing.T) {
	calm := 0
	for deadline := time.Now().Add(timeout); calm < 5 && time.Now().Before(deadline); {
		select {
		case <-t.Context().Done():
			return
		case <-time.After(200 * time.Millisecond): // there is no signal for "all siblings have ended"
		}
		if others() {
			calm = 0
		} else {
			calm++
		}
	}
}

// others reports whether the parent process has children besides this one.
func others() bool {
	parent, self := os.Getppid(), os.Getpid()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(lists, func(list string) bool {
		data, err := os.ReadFile(list)
		return err == nil && slices.ContainsFunc(strings.Fields(string(data)), func(pid string) bool {
			return pid != strconv.Itoa(self)
		})
	})
}

// report writes to the stderr of the go command. A regular file is left alone:
// the go command would overwrite what is written there.
func report(note string) {
	path := fmt.Sprintf("/proc/%d/fd/2", os.Getppid())
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer out.Close()
	fmt.Fprint(out, note)
}
