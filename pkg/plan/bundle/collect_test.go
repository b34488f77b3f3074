package bundle

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResources(t *testing.T) {
	cases := map[string]struct {
		why   string
		tree  map[string]string
		limit Limits
		want  []string
		found []string
	}{
		"All": {
			why: "everything but fleet.yaml and what is hidden",
			tree: map[string]string{
				"d/fleet.yaml": "", "d/README.md": "x", "d/b.yaml": configMap, "d/a/c.json": "{}", "d/.hidden": "x", "d/.h/x.yaml": "x", "d/LICENSE": "",
			},
			want: []string{"LICENSE", "README.md", "a/c.json", "b.yaml"},
		},
		"Nested": {
			why:  "files of bundles further down stay in, and so do their fleet.yaml: the renderer knows them by it",
			tree: map[string]string{"d/a.yaml": configMap, "d/sub/fleet.yaml": "", "d/sub/b.yaml": configMap},
			want: []string{"a.yaml", "sub/b.yaml", "sub/fleet.yaml"},
		},
		"FleetYML": {
			why:  "as in the reference",
			tree: map[string]string{"d/fleet.yml": "namespace: x", "d/a.yaml": configMap},
			want: []string{"a.yaml", "fleet.yml"},
		},
		"Ignore": {
			tree: map[string]string{
				"d/.fleetignore": "# comment\n*.md\nsecret.yaml  \nskip/*\n\n", "d/a.yaml": configMap, "d/b.md": "x", "d/sub/secret.yaml": "x: y",
				"d/sub/.fleetignore": "c.yaml", "d/sub/c.yaml": configMap, "d/c.yaml": "", "d/skip/x.yaml": configMap, "d/sub/skip/y.yaml": configMap,
				"d/sub2/c.yaml": "",
			},
			want: []string{"a.yaml", "c.yaml", "sub2/c.yaml"},
		},
		"IgnoreFileWithAFault": {
			tree:  map[string]string{"d/.fleetignore": "ok\n[a\n", "d/a.yaml": configMap},
			found: []string{"d/.fleetignore:2:1: error: this is not a valid pattern [ignore-file]"},
		},
		"LinkInside": {
			tree: map[string]string{"d/a.yaml": configMap, "d/link.txt": "-> a.yaml", "d/sub/x": "1", "d/dir": "-> sub"},
			want: []string{"a.yaml", "dir/x", "link.txt", "sub/x"},
		},
		"LinkToNeighbour": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/link.yaml": "-> ../e/b.yaml", "e/b.yaml": configMap},
			found: []string{"d/link.yaml:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]"},
		},
		"LinkOut": {
			tree: map[string]string{"d/a.yaml": configMap, "d/etc": "-> /etc", "d/up": "-> ../../x", "d/gone": "-> nothing"},
			found: []string{
				"d/etc:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]",
				"d/gone:1:1: error: symbolic link cannot be followed: file does not exist [file]",
				"d/up:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]",
			},
		},
		"LinkChainOut": {
			why:   "what counts is where the whole chain ends",
			tree:  map[string]string{"d/a.yaml": configMap, "d/one": "-> two", "d/two": "-> ../e/b.yaml", "e/b.yaml": configMap},
			found: []string{"d/one:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]", "d/two:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]"},
		},
		"LinkLoop": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/sub/up": "-> ..", "d/loop": "-> loop"},
			found: []string{"d/loop:1:1: error: symbolic link cannot be followed: too many symbolic links [file]", "d/sub/up:1:1: error: symbolic link leads to a directory that it is in [file]"},
		},
		"Nothing": {
			why: "no error where there never was a bundle", tree: map[string]string{"d/fleet.yaml": "namespace: x"},
			found: []string{"d:1:1: warning: there is nothing to deploy in this directory [empty]"},
		},
		"TooManyFile": {tree: map[string]string{"d/a": "1", "d/b": "2"}, limit: Limits{Files: 1}, found: []string{"d:1:1: error: the bundle has more than 1 files [too-large]"}},
		"LargeFile":   {tree: map[string]string{"d/a": strings.Repeat("x", 2000)}, limit: Limits{FileBytes: 1024}, found: []string{"d/a:1:1: error: the file is larger than 1 KiB [too-large]"}},
		"LargeSum":    {tree: map[string]string{"d/a": strings.Repeat("x", 600), "d/b": strings.Repeat("x", 600)}, limit: Limits{TotalBytes: 1024}, found: []string{"d:1:1: error: the bundle's files are larger than 1 KiB together [too-large]"}},
		"Deep":        {tree: map[string]string{"d/1/2/3/a": "x"}, limit: Limits{Depth: 2}, found: []string{"d/1/2/3:1:1: error: directories are nested deeper than 2 [too-large]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo", Limits: c.limit})
			if diff := cmp.Diff(c.want, names(r.Bundle)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
		})
	}
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"", "#x\n*.md\n", "a/*\n", "[a\n", "a\\ \n", "\r\n x \n", "**/x\n", "/*\n", "/*a/*\n", "\\[a\n"} {
		f.Add([]byte(s), "name.md")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		list, bad, why := parseIgnore(data)
		if bad < 0 || bad > strings.Count(string(data), "\n")+1 || (bad > 0) != (why != "") {
			t.Fatalf("line %d of %q: %s", bad, data, why)
		}
		for _, glob := range list.globs {
			if _, err := path.Match(glob, name); err != nil {
				t.Fatalf("%q is taken as a pattern: %v", glob, err)
			}
		}
		for exact := range list.names { // the short way must say what the long one says
			if ok, err := path.Match(exact, name); err != nil || ok != (exact == name) {
				t.Fatalf("%q matches %q: %v, %v", exact, name, ok, err)
			}
		}
		list.matchingLine(name, true)
	})
}
