package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// goroutineLibraries are packages that start goroutines, or call code of ours from
// them, where we write no go statement: the whole of a folder where the path ends with
// a slash.
var goroutineLibraries = []string{
	"github.com/rancher/",
	"golang.org/x/sync/errgroup",
	"helm.sh/",
	"k8s.io/client-go/",
	"net",
	"net/http",
	"net/http/",
	"os/exec",
	"os/signal",
	"testing/synctest",
}

// goroutineCalls are methods and functions that run their argument in a goroutine, and
// testing's Parallel.
var goroutineCalls = []string{"AfterFunc", "Go", "Parallel"}

// A listedPackage is what go list -json says of a package.
type listedPackage struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports           []string
	own, tests                                   bool // whether they start goroutines
}

// concurrentPackages returns those packages whose tests can run more than one goroutine:
// the package, its tests, or a package of this module that one of them imports, starts
// goroutines. The race detector compares what goroutines do: in the tests of all other
// packages it finds nothing, and costs their compilation, their link and a multiple of
// their time.
func concurrentPackages(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var packages []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		if err := p.parse(); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return concurrent(packages), nil
}

// parse finds out whether a package's files start goroutines.
func (p *listedPackage) parse() error {
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("look for goroutines: %w", err)
		}
		switch starts := startsGoroutines(file); {
		case starts && strings.HasSuffix(name, "_test.go"):
			p.tests = true
		case starts:
			p.own = true
		}
	}
	return nil
}

// startsGoroutines reports whether a file has a go statement, one of goroutineCalls, or
// an import of one of goroutineLibraries.
func startsGoroutines(file *ast.File) bool {
	for _, i := range file.Imports {
		if name, err := strconv.Unquote(i.Path.Value); err != nil || slices.ContainsFunc(goroutineLibraries, func(l string) bool {
			return name == l || strings.HasSuffix(l, "/") && strings.HasPrefix(name, l)
		}) {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(goroutineCalls, s.Sel.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}

// concurrent returns the paths of those packages whose tests can run more than one
// goroutine, in their order.
func concurrent(packages []listedPackage) []string {
	byPath := map[string]*listedPackage{}
	for i, p := range packages {
		byPath[p.ImportPath] = &packages[i]
	}
	known := map[string]bool{}
	var reaches func(path string) bool
	reaches = func(path string) bool {
		p := byPath[path]
		if p == nil {
			return false // of another module
		}
		if _, ok := known[path]; !ok {
			known[path] = p.own || slices.ContainsFunc(p.Imports, reaches)
		}
		return known[path]
	}
	var out []string
	for _, p := range packages {
		if p.tests || reaches(p.ImportPath) || slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), reaches) {
			out = append(out, p.ImportPath)
		}
	}
	return out
}
