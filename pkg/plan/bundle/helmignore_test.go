package bundle

import (
	"bytes"
	"io/fs"
	"testing"

	"helm.sh/helm/v3/pkg/ignore"
)

// What is left out of a chart is what Helm leaves out.
func FuzzHelmIgnore(f *testing.F) {
	for _, rules := range []string{
		"", "# x\n*.md\n", "charts/\n", "/a.yaml\n", "templates/*.bak\n", "!keep\n", "!keep/\n", "\ufeffa\n", "  a  \n", "**\n", "[a\n", "a/b/\n", "/\n", ".\n", "!\n", "\\!a\n",
	} {
		for _, name := range []string{"a", "a.yaml", "charts", "templates/x.bak", "keep", "README.md", "a/b", "templates/.swp"} {
			f.Add([]byte(rules), name, name == "charts" || name == "a/b")
		}
	}
	f.Fuzz(func(t *testing.T, rules []byte, name string, dir bool) {
		if !fs.ValidPath(name) || name == "." || bytes.Count(rules, []byte("\n")) > 100 || bytes.ContainsAny(rules, "\r") {
			return
		}
		ours, _, err := parseHelmIgnore(rules)
		theirs, theirErr := ignore.Parse(bytes.NewReader(rules))
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("ours %v, Helm's %v", err, theirErr)
		}
		if err != nil {
			return
		}
		theirs.AddDefaults()
		mode := fs.FileMode(0)
		if dir {
			mode = fs.ModeDir
		}
		if got, want := ours.ignored(name, dir), theirs.Ignore(name, about{name: name, mode: mode}); got != want {
			t.Errorf("%q, %q, directory %v: got %v, Helm says %v", rules, name, dir, got, want)
		}
	})
}
