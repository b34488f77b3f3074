package bundlesource_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

func newReader(t testing.TB, change func(*bundlesource.Config)) *bundlesource.Reader {
	t.Helper()
	cfg := bundlesource.Config{Addresses: address.WithLoopback(), Dir: t.TempDir()}
	if change != nil {
		change(&cfg)
	}
	r, err := bundlesource.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func newRemotes(t testing.TB) *git.Remotes {
	t.Helper()
	remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remotes.Close() })
	return remotes
}

// tree is files, by path.
func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return fs
}

func input(files map[string]string) bundlesource.Input {
	return bundlesource.Input{Tree: tree(files), Paths: []string{"*"}, Options: bundle.Options{Repo: "repo"}}
}

// read reads and wants nothing wrong.
func read(t *testing.T, r *bundlesource.Reader, in bundlesource.Input) bundle.Set {
	t.Helper()
	set, _, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range set.AllFindings() {
		t.Errorf("unexpected: %s", f)
	}
	return set
}

// names are the files of all bundles, without the digest of chart directories.
func names(set bundle.Set) []string {
	var list []string
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		for _, f := range r.Bundle.Spec.Resources {
			name := f.Name
			if rest, ok := strings.CutPrefix(name, ".chart/"); ok {
				_, rest, _ = strings.Cut(rest, "/")
				name = "(chart)/" + rest
			}
			list = append(list, r.Name+": "+name)
		}
	}
	return list
}

// wrong are the errors of a reading.
func wrong(t *testing.T, r *bundlesource.Reader, in bundlesource.Input) []string {
	t.Helper()
	set, _, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range finding.Errors(set.AllFindings()) {
		list = append(list, f.Short())
	}
	return list
}

func helmYAML(fields ...string) string { return "helm:\n  " + strings.Join(fields, "\n  ") + "\n" }

// What cannot be had is a finding with file and line; others are made; what may
// pass is tried again.
func TestFindings(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{
		Charts:   []webtest.Chart{{Name: "demo", Version: "1.0.0"}},
		Files:    map[string][]byte{"/text.tgz": []byte("no archive")},
		Handlers: map[string]http.HandlerFunc{"/down.tgz": webtest.Status(http.StatusBadGateway)},
	})
	files := func(yaml string) map[string]string {
		return map[string]string{"a/fleet.yaml": "defaultNamespace: x\n" + yaml, "ok/cm.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"}
	}
	cases := map[string]struct {
		yaml  string
		want  string // a part of it
		retry bool
	}{
		"NoSuchChart":   {yaml: helmYAML("repo: "+helm.URL, "chart: none"), want: "none"},
		"NoSuchVersion": {yaml: helmYAML("repo: "+helm.URL, "chart: demo", `version: ">=2"`), want: "1.0.0"},
		"NotFound":      {yaml: helmYAML("chart: " + helm.URL + "/none.tgz"), want: "404"},
		"NoArchive":     {yaml: helmYAML("chart: " + helm.URL + "/text.tgz"), want: "text.tgz"},
		"Down":          {yaml: helmYAML("chart: " + helm.URL + "/down.tgz"), want: "502", retry: true},
		"Away":          {yaml: helmYAML("repo: http://127.0.0.1:1/charts", "chart: demo"), want: "connection refused", retry: true},
		"Password":      {yaml: helmYAML("chart: http://user:secret@" + helm.Host + "/none.tgz"), want: "404"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, _, err := newReader(t, nil).Read(t.Context(), input(files(c.yaml)))
			if err != nil || len(set.Results) != 2 {
				t.Fatalf("want 2 results, got %v, %v", set, err)
			}
			a, ok := set.Results[0], set.Results[1]
			if ok.Bundle == nil {
				t.Error("the other bundle was not made")
			}
			errs := finding.Errors(a.Findings)
			if len(errs) != 1 || errs[0].Rule != finding.RuleChart || errs[0].Path != "a/fleet.yaml" || errs[0].Line < 3 {
				t.Fatalf("want one error at a line of a/fleet.yaml, got %v", errs)
			}
			if !strings.Contains(errs[0].Message, c.want) || strings.Contains(errs[0].Message, "secret") {
				t.Errorf("want %q and no password in %q", c.want, errs[0].Message)
			}
			if a.Retry != c.retry {
				t.Errorf("want retry %v, got %v", c.retry, a.Retry)
			}
		})
	}
}

// Offline nothing is asked for at all.
func TestOffline(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}})
	r := newReader(t, func(c *bundlesource.Config) { c.Offline = true })
	set, _, err := r.Read(t.Context(), input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo")}))
	if err != nil {
		t.Fatal(err)
	}
	if errs := finding.Errors(set.AllFindings()); len(errs) != 1 || errs[0].Rule != finding.RuleOffline {
		t.Errorf("want one finding by rule offline, got %v", set.AllFindings())
	}
	if n := helm.Requests(""); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// The store does not grow beyond its limit by what is not in use, and leaves
// nothing behind.
func TestStoreIsBounded(t *testing.T) {
	big := map[string]string{}
	state := uint32(1)
	for i := range 4 {
		data := make([]byte, 256<<10)
		for j := range data { // what cannot be packed
			state = state*1664525 + 1013904223
			data[j] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[state>>26]
		}
		big[fmt.Sprintf("files/%d.txt", i)] = string(data)
	}
	var charts []webtest.Chart
	for i := range 6 {
		charts = append(charts, webtest.Chart{Name: fmt.Sprintf("demo%d", i), Version: "1.0.0", Files: big})
	}
	helm := webtest.Repository(t, webtest.Options{Charts: charts})
	dir := t.TempDir()
	r, err := bundlesource.New(bundlesource.Config{Addresses: address.WithLoopback(), Dir: dir, Limits: bundlesource.Limits{StoreBytes: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		read(t, r, input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, fmt.Sprintf("chart: demo%d", i))}))
		if n := onDisk(t, dir); n > 5<<20 {
			t.Errorf("after %d charts there are %d KiB on disk", i+1, n>>10)
		}
	}
	read(t, r, input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo5")}))
	if n := helm.Requests("/archives/demo5-1.0.0.tgz"); n != 1 {
		t.Errorf("what was used last is kept, but it was asked for %d times", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := onDisk(t, dir); n != 0 {
		t.Errorf("%d bytes are left behind", n)
	}
}

func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Another process may clean up temporary directories: the reader fetches again
// what is gone.
func TestStoreIsCleanedUp(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}})
	dir := t.TempDir()
	r := newReader(t, func(c *bundlesource.Config) { c.Dir = dir })
	in := input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo")})
	want := names(read(t, r, in))
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for what, remove := range map[string]string{"all": found[0], "what was unpacked": filepath.Join(found[0], "*", "tree-*"), "what was downloaded": filepath.Join(found[0], "*", "blob")} {
		list, err := filepath.Glob(remove)
		if err != nil || len(list) == 0 {
			t.Fatal(what, err)
		}
		for _, name := range list {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, names(read(t, r, in))); diff != "" {
			t.Errorf("%s was gone\n%s", what, diff)
		}
	}
}

// Bundles that are too much together are refused before they are all in memory.
func TestReadingIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("app-%02d/cm.yaml", i)] = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {a: " + strings.Repeat("x", 20<<10) + "}\n"
	}
	r := newReader(t, func(c *bundlesource.Config) { c.Limits.ReadingBytes = 1 << 20 })
	if _, _, err := r.Read(t.Context(), input(files)); !reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != "TooLarge" {
		t.Errorf("want TooLarge, got %v", err)
	}
	for i := range 10 {
		delete(files, fmt.Sprintf("app-%02d/cm.yaml", i))
	}
	read(t, r, input(files))
}
