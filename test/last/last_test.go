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
const patience = 10 * time.Minute

// TestWhatWasSkipped tells on go test's own stderr how many tests need the
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
	tell(note)
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
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "kubernetes" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || !strings.Contains(path, "/integrationtests/") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				count++
			}
		}
		return nil
	})
	return count, err
}

// waitForOthers returns when go test has no other child left for a while.
func waitForOthers(t *testing.T) {
	calm := 0
	for deadline := time.Now().Add(patience); calm < 5 && time.Now().Before(deadline); {
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

// others tells whether the parent process has children besides this one.
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

// tell writes to the stderr of the go command. A regular file is left alone:
// the go command would overwrite what is written there.
func tell(note string) {
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
