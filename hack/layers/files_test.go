package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A goFile is a parsed Go file of the project.
type goFile struct {
	path string // relative to the root of the project, with slashes
	set  *token.FileSet
	*ast.File
}

// folder returns the folder of a file, relative to the root of the project.
func (f goFile) folder() string { return filepath.ToSlash(filepath.Dir(f.path)) }

// isTest reports whether a file holds tests.
func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// parsed reads all Go files outside of testdata and hidden folders, once.
var parsed = sync.OnceValues(func() (files []goFile, err error) {
	root := filepath.Join("..", "..")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, goFile{filepath.ToSlash(name), set, file})
		return err
	})
	return files, err
})

// goFiles returns all Go files of the project, with tests where they are asked for.
func goFiles(t *testing.T, tests bool) []goFile {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 1000 {
		t.Fatalf("only %d Go files found: the test looks in the wrong folder", len(all))
	}
	var out []goFile
	for _, f := range all {
		if tests || !f.isTest() {
			out = append(out, f)
		}
	}
	return out
}
