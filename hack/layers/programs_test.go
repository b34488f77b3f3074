package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxMainFunctions is how many functions and methods a package main may have. What a
// program does is in packages, which tests and other programs can import.
const maxMainFunctions = 60

// TestProgramsAreSmall counts the functions of every package main.
func TestProgramsAreSmall(t *testing.T) {
	functions := map[string]int{} // by folder
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		n, err := mainFunctions(path)
		if err != nil {
			return err
		}
		if n > 0 {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			functions[filepath.ToSlash(folder)] += n
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for folder := range functions {
		programs = append(programs, folder)
	}
	slices.SortFunc(programs, func(a, b string) int { return cmp.Or(functions[b]-functions[a], strings.Compare(a, b)) })
	if len(programs) < 5 {
		t.Fatalf("only %d programs found: the test looks in the wrong folder", len(programs))
	}
	if functions[programs[0]] <= maxMainFunctions {
		return
	}
	var largest []string
	for _, folder := range programs[:5] {
		largest = append(largest, fmt.Sprintf("%4d %s", functions[folder], folder))
	}
	t.Errorf("a package main has at most %d functions; the largest are:\n%s", maxMainFunctions, strings.Join(largest, "\n"))
}

// mainFunctions counts the functions and methods of a file of a package main.
func mainFunctions(path string) (int, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil || file.Name.Name != "main" {
		return 0, err
	}
	n := 0
	for _, d := range file.Decls {
		if _, ok := d.(*ast.FuncDecl); ok {
			n++
		}
	}
	return n, nil
}
