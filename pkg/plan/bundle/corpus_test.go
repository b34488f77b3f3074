package bundle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sentinel = "SENTINEL"

// What leads out of a bundle, and what has no end, is refused with its place:
// each file in testdata/TestRefused is findings and a tree of files. In a tree
// that counts, nothing outside is read; on a disk, where what is outside exists,
// nothing of it shows up.
func TestRefused(t *testing.T) {
	corpus, err := filepath.Glob("testdata/TestRefused/*.txt")
	if err != nil || len(corpus) < 20 {
		t.Fatalf("%d cases, %v", len(corpus), err)
	}
	for _, file := range corpus {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			found, tree := readCase(t, file)
			refused(t, tree, found)

			set := Read(onDisk(t, tree).FS(), []string{"d", "good"}, nil, Options{Repo: "repo"})
			if set.Results[0].Bundle != nil || set.Results[1].Bundle == nil || strings.Contains(set.print(), sentinel) {
				t.Errorf("on disk:\n%s", set.print())
			}
		})
	}
}

// refused reads a tree whose bundle d must be refused, and the good one beside
// it not.
func refused(t *testing.T, tree map[string]string, found []string) *hashed {
	t.Helper()
	tree["good/cm.yaml"], tree["secret/s"] = configMap, sentinel
	h := newHashed(files(tree))
	set := Read(h, []string{"d", "good"}, nil, Options{Repo: "repo"})
	if diff := cmp.Diff(found, texts(set.Results[0].Findings)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if set.Results[0].Bundle != nil || set.Results[1].Bundle == nil {
		t.Error("want no bundle d, and the one beside it")
	}
	if got := h.total("secret/"); got != 0 {
		t.Errorf("%d bytes of what is outside were read", got)
	}
	if strings.Contains(set.print(), sentinel) {
		t.Error("what is outside shows up")
	}
	return h
}

// readCase reads a case of the corpus: a finding in each line, then files, each
// after a line "-- name --". A file that begins with "-> " is a link.
func readCase(t *testing.T, file string) (found []string, tree map[string]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree = map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSuffix(line, "\n")
		switch next, isName := strings.CutPrefix(text, "-- "); {
		case isName:
			name = strings.TrimSuffix(next, " --")
		case name == "":
			found = append(found, text)
		case strings.HasPrefix(text, "-> "):
			tree[name] = text
		default:
			tree[name] += line
		}
	}
	return found, tree
}

// onDisk writes a tree; what links and paths in it lead out to is there and has
// the sentinel in it.
func onDisk(t *testing.T, tree map[string]string) *os.Root {
	t.Helper()
	top := t.TempDir()
	write := func(p, text string) {
		if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
			t.Fatal(err)
		}
		var err error
		if link, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(link, p)
		} else {
			err = os.WriteFile(p, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range []string{"etc/passwd", "etc/shadow", "x/Chart.yaml", "secret/s"} {
		write(filepath.Join(top, out), sentinel)
	}
	for p, text := range tree {
		write(filepath.Join(top, "repo", p), text)
	}
	root, err := os.OpenRoot(filepath.Join(top, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// A file that is replaced by a link after it was looked at leads nowhere: a
// process that changes a directory while it is read gets nothing from outside
// of it.
func TestSwapped(t *testing.T) {
	cases := map[string]struct {
		swap string
		tree map[string]string
	}{
		"Resource":  {"d/a.txt", map[string]string{"d/a.txt": "x", "d/cm.yaml": configMap}},
		"Values":    {"lib/v.yaml", map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [../lib/v.yaml]}", "d/Chart.yaml": chartYAML("d"), "lib/v.yaml": "a: 1"}},
		"Options":   {"d/fleet.yaml", map[string]string{"d/fleet.yaml": "namespace: x", "d/cm.yaml": configMap}},
		"Ignore":    {"d/.fleetignore", map[string]string{"d/.fleetignore": "x", "d/cm.yaml": configMap}},
		"Directory": {"d/sub", map[string]string{"d/sub/passwd": "x", "d/cm.yaml": configMap}},
		"Packaged":  {"lib/x", map[string]string{"d/Chart.yaml": chartYAML("d", "file://../lib"), "lib/Chart.yaml": chartYAML("n0"), "lib/x": "x"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &swapped{root: onDisk(t, c.tree), name: c.swap}
			r := Assemble(s, Dir{Path: "d"}, Options{Repo: "repo"})
			if !s.done {
				t.Fatal("nothing was swapped")
			}
			set := NewSet([]Result{r}, nil)
			if r.Bundle != nil || strings.Contains(set.print(), sentinel) {
				t.Errorf("want an error, got\n%s", set.print())
			}
		})
	}
}

// swapped is a directory in which a name becomes a link that leads out in the
// moment before it is opened.
type swapped struct {
	root *os.Root
	name string
	done bool
}

func (s *swapped) Lstat(name string) (fs.FileInfo, error) { return s.root.Lstat(name) }
func (s *swapped) ReadLink(name string) (string, error)   { return s.root.Readlink(name) }

func (s *swapped) Open(name string) (fs.File, error) {
	if err := s.swap(name, "../../etc/passwd"); err != nil {
		return nil, err
	}
	return s.root.FS().Open(name)
}

func (s *swapped) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := s.swap(name, "../../etc"); err != nil {
		return nil, err
	}
	return fs.ReadDir(s.root.FS(), name)
}

func (s *swapped) swap(name, goal string) error {
	if name != s.name || s.done {
		return nil
	}
	s.done = true
	return errors.Join(s.root.RemoveAll(name), s.root.Symlink(goal, name))
}
