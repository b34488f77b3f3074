package layers

import (
	"cmp"
	"fmt"
	"go/ast"
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
	for _, f := range goFiles(t, false) {
		if f.Name.Name != "main" {
			continue
		}
		for _, d := range f.Decls {
			if _, ok := d.(*ast.FuncDecl); ok {
				functions[f.folder()]++
			}
		}
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
