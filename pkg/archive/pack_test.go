package archive_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const chartYAML = "apiVersion: v2\nname: sub\nversion: 1.2.3\n"

func TestPack(t *testing.T) {
	a := fstest.MapFS{
		"Chart.yaml":               {Data: []byte(chartYAML), Mode: 0o600, ModTime: time.Unix(1e9, 0)},
		"templates/configmap.yaml": {Data: []byte("kind: ConfigMap\n"), Mode: 0o755},
		"values.yaml":              {Data: []byte("a: 1\n")},
		strings.Repeat("long/", 40) + strings.Repeat("n", 120): {Data: []byte("x")},
	}
	b := fstest.MapFS{}
	for name, f := range a {
		b[name] = &fstest.MapFile{Data: f.Data, Mode: 0o444, ModTime: time.Unix(2e9, 0)}
	}
	one, err := archive.Pack(a, "sub")
	if err != nil {
		t.Fatal(err)
	}
	two, err := archive.Pack(b, "sub")
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("times and modes change the archive (%v)", err)
	}
	// Helm reads it.
	c, err := loader.LoadArchive(bytes.NewReader(one))
	if err != nil || c.Name() != "sub" || c.Metadata.Version != "1.2.3" || len(c.Templates) != 1 || c.Values["a"] != 1.0 {
		t.Errorf("Helm reads %v, %v", c, err)
	}
	// And so do we.
	p := newPlace(t)
	if _, err := p.unpack(one, archive.Options{Format: "tgz"}); err != nil {
		t.Fatal(err)
	}
	got := p.tree(t)
	if diff := cmp.Diff("-rw-r--r-- 16", got["sub/templates/configmap.yaml"]); diff != "" {
		t.Error(diff)
	}
}

func TestPackLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"chart/Chart.yaml": chartYAML, "secret": "outside"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, target string) {
		if err := os.Symlink(target, filepath.Join(dir, "chart", name)); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *os.Root {
		root, err := os.OpenRoot(filepath.Join(dir, "chart"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		return root
	}
	link("copy.yaml", "Chart.yaml")
	data, err := archive.Pack(open().FS(), "c")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	if _, err := p.unpack(data, archive.Options{Format: "tgz"}); err != nil || p.tree(t)["c/copy.yaml"] != "-rw-r--r-- 40" {
		t.Errorf("a link to a file is packed as the file: %v %v", p.tree(t), err)
	}
	link("out", "../secret")
	if data, err := archive.Pack(open().FS(), "c"); err == nil || bytes.Contains(data, []byte("outside")) {
		t.Errorf("a link out of the directory: %v", err)
	}
}

func TestPackTooLarge(t *testing.T) {
	big := make([]byte, 60<<20)
	tree := fstest.MapFS{"a": {Data: big}, "b": {Data: big}}
	if _, err := archive.Pack(tree, "c"); reconcile.ReasonOf(err) != archive.ReasonTooLarge {
		t.Errorf("got %v", err)
	}
}
