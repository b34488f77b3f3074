package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listItem is the first line of an item of a list.
var listItem = regexp.MustCompile(`^([*-]|\d+\.) `)

// page is the text of a page below docs.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Commands and YAML in pages are between fences: a program that wraps the lines of a
// page joins lines that are only indented, and the commands cannot be run any more.
func TestNoIndentedCode(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/cli/*.md", "docs/decisions/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, path := range paths {
			for _, at := range indented(t, path) {
				t.Errorf("%s:%d: code that is only indented: put it between fences", path, at)
			}
		}
	}
}

// indented are the numbers of the lines of a page at which code begins that is
// indented and not between fences. A continued item of a list is no code.
func indented(t *testing.T, path string) []int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	fenced, list, blank := false, false, true
	for i, line := range strings.Split(string(data), "\n") {
		text := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(text, "```"):
			fenced = !fenced
		case fenced:
		case text == line && text != "":
			list = listItem.MatchString(line)
		case text != "" && blank && !list && strings.HasPrefix(line, "    "):
			out = append(out, i+1)
		}
		blank = text == ""
	}
	return out
}
