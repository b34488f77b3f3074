package compatibility

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/compatibility.md")

// root is the top of the repository, as seen from this package.
const root = "../.."

// untested is how many rows that this project has no test proves. The number may
// only become smaller.
const untested = 3

// rows are the subjects of the table: letters, and how many rows each has.
var rows = []struct {
	letters string
	count   int
}{
	{"A", 10}, {"B", 17}, {"C", 13}, {"D", 17}, {"E", 16}, {"F", 25}, {"G", 13}, {"H", 13}, {"I", 15}, {"J", 8},
	{"K", 9}, {"L", 25}, {"M", 13}, {"N", 9}, {"O", 13}, {"P", 9}, {"Q", 5}, {"R", 21}, {"S", 12}, {"T", 4},
	{"U", 7}, {"V", 8}, {"W", 9}, {"X", 13}, {"Y", 3}, {"Z", 10}, {"AA", 15},
}

// The page is what is made of the rows. If not: go run ./hack/generate.
func TestPageIsCurrent(t *testing.T) {
	want, err := Text(root)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, Page)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(got) {
		t.Errorf("%s is not what the rows say: go run ./hack/generate", Page)
	}
}

// Every row of every subject is there once, in order, and has an answer.
func TestEveryRowHasAnAnswer(t *testing.T) {
	var want []string
	for _, r := range rows {
		for i := range r.count {
			want = append(want, fmt.Sprintf("%s%d", r.letters, i+1))
		}
	}
	list := all(t)
	for i, r := range list {
		if i >= len(want) || r.ID != want[i] {
			t.Fatalf("row %d is %s, want the rows %s", i+1, r.ID, strings.Join(want, " "))
		}
		if r.Reference == "" {
			t.Errorf("row %s does not say what the reference does", r.ID)
		}
		switch r.Ours {
		case Same:
		case Differs, NotThere:
			if r.How == "" {
				t.Errorf("row %s says %q, and not how or why", r.ID, r.Ours)
			}
		default:
			t.Errorf("row %s has the answer %q", r.ID, r.Ours)
		}
	}
	if len(list) != len(want) {
		t.Errorf("%d rows, want %d", len(list), len(want))
	}
}

// The number of rows that are here and have no proof does not grow.
func TestRowsWithoutTest(t *testing.T) {
	var none []string
	for _, r := range all(t) {
		if r.Ours != NotThere && len(r.Proof) == 0 {
			none = append(none, r.ID)
		}
	}
	if len(none) > untested {
		t.Errorf("%d rows have no test, %d may have none: %s", len(none), untested, strings.Join(none, " "))
	}
	if len(none) < untested {
		t.Errorf("%d rows have no test: lower the constant untested from %d", len(none), untested)
	}
}

// Each proof is a test that exists and that a whole run does not skip.
func TestProofsExist(t *testing.T) {
	skipped := skippedTests(t)
	packages := map[string]declarations{}
	for _, r := range all(t) {
		for _, p := range r.Proof {
			folder, name, ok := strings.Cut(p, " ")
			if !ok {
				t.Errorf("row %s: %q is no package and test", r.ID, p)
				continue
			}
			if _, ok := packages[folder]; !ok {
				packages[folder] = declarationsOf(t, folder)
			}
			if err := packages[folder].find(name); err != nil {
				t.Errorf("row %s: %s: %v", r.ID, folder, err)
			}
			if top, _, _ := strings.Cut(name, "/"); skipped[p] || skipped[folder+" "+top] {
				t.Errorf("row %s: %s is skipped, see hack/test/skipped.txt", r.ID, p)
			}
		}
	}
}

func all(t *testing.T) []Row {
	t.Helper()
	subjects, err := Subjects()
	if err != nil {
		t.Fatal(err)
	}
	var list []Row
	for _, s := range subjects {
		list = append(list, s.Rows...)
	}
	return list
}

// declarations are what the test files of a package declare, by name: functions,
// methods, variables. A name that several types have as a method has several.
type declarations map[string][]ast.Node

var testName = regexp.MustCompile(`^(Test|Fuzz)[^a-z]`)

// declarationsOf parses the test files of a package. A package of integration tests
// has some parts of tests in other files, so all its files count.
func declarationsOf(t *testing.T, folder string) declarations {
	t.Helper()
	pattern := "*_test.go"
	if strings.HasPrefix(folder, "integrationtests") {
		pattern = "*.go"
	}
	names, err := filepath.Glob(filepath.Join(root, folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	found := declarations{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			found.add(d)
		}
	}
	return found
}

func (f declarations) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		f[d.Name.Name] = append(f[d.Name.Name], d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					f[n.Name] = append(f[n.Name], v)
				}
			}
		}
	}
}

// find reports why there is no test of a name. Each part of the name after a slash
// must be a text in the test, or in what the test uses, and a subtest must run there.
func (f declarations) find(name string) error {
	parts := strings.Split(name, "/")
	if !testName.MatchString(parts[0]) || len(f[parts[0]]) == 0 {
		return fmt.Errorf("there is no test %s", parts[0])
	}
	if len(parts) == 1 {
		return nil
	}
	texts, runs := f.textsOf(parts[0])
	if !runs {
		return fmt.Errorf("%s runs no subtests", parts[0])
	}
	for _, p := range parts[1:] {
		if !texts[p] {
			return fmt.Errorf("%s has no subtest %s", parts[0], p)
		}
	}
	return nil
}

// textsOf returns the texts in a function and in all declarations that it uses, with
// spaces as the names of subtests have them, and whether a subtest runs there.
func (f declarations) textsOf(name string) (texts map[string]bool, runs bool) {
	texts = map[string]bool{}
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, d := range f[queue[0]] {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						texts[strings.ReplaceAll(s, " ", "_")] = true
					}
				case *ast.SelectorExpr:
					runs = runs || n.Sel.Name == "Run"
				case *ast.Ident:
					if !seen[n.Name] {
						seen[n.Name] = true
						queue = append(queue, n.Name)
					}
				}
				return true
			})
		}
	}
	return texts, runs
}

// skippedTests are the tests that a whole run skips.
func skippedTests(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "hack", "test", "skipped.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	skipped := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			skipped[line] = true
		}
	}
	return skipped
}
