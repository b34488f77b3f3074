package layers

import (
	"go/ast"
	"strings"
	"testing"
	"unicode"
)

// TestCommentsNameTheirFunctions rejects a doc comment that begins with the name of another
// function, as after a rename that left the comment behind. A comment may also begin with a
// sentence, whose first letter is upper case.
func TestCommentsNameTheirFunctions(t *testing.T) {
	for _, f := range goFiles(t, false) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			first, _, _ := strings.Cut(fn.Doc.Text(), " ")
			first = strings.TrimRight(strings.TrimSpace(first), ":,.")
			if first != "" && unicode.IsLower(rune(first[0])) && first != fn.Name.Name {
				t.Errorf("%s: the comment of %s begins with %q", f.set.Position(fn.Pos()), fn.Name.Name, first)
			}
		}
	}
}
