package layers

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retired are words that no identifier, file or package may contain, and the word
// that is used instead. A word of Kubernetes, Helm, git or GitOps says what a thing
// does; a picture has to be explained.
var retired = map[string]string{
	"cord": "proxy", "debt": "pendingAck", "desk": "shell", "diary": "journal", "diet": "transform", "dress": "namespaceMeta",
	"effort": "writeKind", "errand": "download", "excuse": "reset", "fell": "markDown", "habit": "policy", "hangup": "close",
	"heed": "observe", "house": "manager", "insist": "retry", "keeper": "rotator", "kit": "compiled", "leaver": "staleDeployment",
	"ledger": "cache", "letterbox": "bootstrapWatcher", "manner": "mode", "news": "changes", "owes": "expects", "parcel": "payload",
	"party": "tenant", "patience": "timeout", "planer": "controller", "porter": "copyController", "purse": "budget", "reaper": "crashProxy",
	"retouch": "patchMetadata", "rhythm": "heartbeat", "rider": "roundTripper", "shelf": "limit", "shelves": "limits", "slim": "strip",
	"stranger": "foreign", "swift": "fast", "tell": "report", "told": "reported", "unheard": "unreported", "uplink": "managerClient",
	"victim": "agentProcess", "waker": "heartbeatController",
}

// TestRetiredWords parses all Go files and rejects retired words.
func TestRetiredWords(t *testing.T) {
	for _, f := range goFiles(t, true) {
		rejectWords(t, f)
	}
}

// rejectWords reports the retired words in the name of a file, of its package, and in
// each name that the file declares.
func rejectWords(t *testing.T, f goFile) {
	t.Helper()
	reject := func(at, name string) {
		for _, w := range wordsOf(name) {
			if instead, ok := retired[w]; ok {
				t.Errorf("%s: %s contains the retired word %q; write %s, or what the thing does", at, name, w, instead)
			}
		}
	}
	reject(f.path, strings.TrimSuffix(filepath.Base(f.path), ".go"))
	reject(f.path, f.Name.Name)
	ast.Inspect(f.File, func(n ast.Node) bool {
		for _, id := range declared(n) {
			reject(f.set.Position(id.Pos()).String(), id.Name)
		}
		return true
	})
}

// declared returns the names that a node declares itself.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return identsOf(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return identsOf(n.Key, n.Value)
		}
	}
	return nil
}

func identsOf(list ...ast.Expr) []*ast.Ident {
	var ids []*ast.Ident
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// wordsOf splits a name at capitals, underscores and digits; the words are in lower
// case. A series of capitals is one word: "URLOf" is "url", "of".
func wordsOf(name string) []string {
	var words []string
	var word []rune
	runes := []rune(name)
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && (i > 0 && !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

func TestWordsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"purse": {"purse"}, "newPurse": {"new", "purse"}, "URLOf": {"url", "of"}, "defaults_told": {"defaults", "told"},
		"HTTPShelf2": {"http", "shelf"}, "bestellt": {"bestellt"}, "": nil,
	} {
		if got := wordsOf(name); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
