package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Limits of what one reader keeps in mind.
const (
	maxMethods = 40 // of a type in pkg
	maxFields  = 15 // of a struct in pkg
)

// larger are what may have more than its limit, and why.
var larger = map[string]string{
	"pkg/agent/store.Record: fields":             "what an agent keeps of a deployment; its fields are on disk",
	"pkg/agent/deploy.Config: fields":            "what the agent gives its deployments, one field each",
	"pkg/agent/checkin.Config: fields":           "what the agent gives its check-ins, one field each",
	"pkg/agent/deploy.snapshot: fields":          "facts of one decision, gathered in one place",
	"pkg/plan/bundle.Options: fields":            "what a GitRepo says of its bundles, one field each",
	"pkg/plan/diagnose.Observed: fields":         "facts of one decision, gathered in one place",
	"pkg/plan/explain.Explanation: fields":       "the answer, of which a document is made",
	"pkg/plan/explain.Subject: fields":           "facts of one decision, gathered in one place",
	"pkg/plan/explain.Survey: fields":            "the answer, of which a document is made",
	"pkg/plan/registration.Settings: fields":     "the chart's values, one field each",
	"pkg/plan/registration.settingsFile: fields": "the format of a ConfigMap",
	"pkg/plan/release.Wanted: fields":            "facts of one decision; its cases in tests name those that count",
	"pkg/plan/view.Verdict: fields":              "the answer, of which a document is made",
}

// A size is how many methods, fields or functions something has.
type size struct {
	of    string // for example "pkg/helm.Client: methods"
	n     int
	limit int
}

// Types stay small enough to be read. API types are left out: their fields
// are those of the reference.
func TestSizes(t *testing.T) {
	sizes := sizesOf(goFiles(t, false))
	slices.SortFunc(sizes, func(a, b size) int {
		return cmp.Or(cmp.Compare(b.n*a.limit, a.n*b.limit), strings.Compare(a.of, b.of))
	})
	t.Log("the largest, against their limits:")
	for _, s := range sizes[:min(10, len(sizes))] {
		t.Logf("  %-60s %4d of %d", s.of, s.n, s.limit)
	}
	unused := maps.Clone(larger)
	for _, s := range sizes {
		if s.n <= s.limit {
			continue
		}
		if larger[s.of] == "" {
			t.Errorf("%s: %d, and at most %d are wanted; split it, or write into larger why not", s.of, s.n, s.limit)
		}
		delete(unused, s.of)
	}
	for _, of := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s is within its limit: take it off the list", of)
	}
}

// sizesOf returns the sizes of what files of pkg declare, API types and generated files left
// out.
func sizesOf(files []goFile) []size {
	counts := map[string]*size{}
	add := func(of string, limit, n int) {
		if counts[of] == nil {
			counts[of] = &size{of: of, limit: limit}
		}
		counts[of].n += n
	}
	for _, f := range files {
		if !strings.HasPrefix(f.path, "pkg/") || strings.HasPrefix(f.path, "pkg/apis/") || ast.IsGenerated(f.File) {
			continue
		}
		for _, decl := range f.Decls {
			countDecl(decl, f.folder(), add)
		}
	}
	var list []size
	for _, s := range counts {
		list = append(list, *s)
	}
	return list
}

// countDecl counts one declaration.
func countDecl(decl ast.Decl, dir string, add func(of string, limit, n int)) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			add(fmt.Sprintf("%s.%s: methods", dir, receiver(d.Recv.List[0].Type)), maxMethods, 1)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := ts.Type.(*ast.StructType); ok {
				add(fmt.Sprintf("%s.%s: fields", dir, ts.Name.Name), maxFields, fieldsOf(st))
			}
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// fieldsOf counts the fields of a struct; an embedded type is one.
func fieldsOf(st *ast.StructType) int {
	n := 0
	for _, f := range st.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}
