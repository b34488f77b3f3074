package reader_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/controllers/reader"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

func newReader(t testing.TB, change func(*reader.Config)) *reader.Reader {
	t.Helper()
	cfg := reader.Config{Dir: t.TempDir()}
	if change != nil {
		change(&cfg)
	}
	r, err := reader.New(cfg)
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
	remotes, err := git.New(git.Config{Dir: t.TempDir()})
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

func input(files map[string]string) reader.Input {
	return reader.Input{Tree: tree(files), Paths: []string{"*"}, Options: bundle.Options{Repo: "repo"}}
}

// read reads and wants nothing wrong.
func read(t *testing.T, r *reader.Reader, in reader.Input) bundle.Set {
	t.Helper()
	set, _, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range set.All() {
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
func wrong(t *testing.T, r *reader.Reader, in reader.Input) []string {
	t.Helper()
	set, _, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range finding.Errors(set.All()) {
		list = append(list, f.Short())
	}
	return list
}

func helmYAML(fields ...string) string { return "helm:\n  " + strings.Join(fields, "\n  ") + "\n" }

// Every kind of source ends as the same chart in the bundle.
func TestSources(t *testing.T) {
	files := map[string]string{"templates/cm.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"}
	want := []string{"repo-app: (chart)/demo/Chart.yaml", "repo-app: (chart)/demo/templates/cm.yaml"}

	helm := webtest.Repository(t, webtest.Options{
		Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0", Files: files}, {Name: "demo", Version: "1.4.2", Files: files}, {Name: "demo", Version: "2.0.0", Files: files}},
		Path:   "/charts", Username: "robot", Password: "beep", TLS: true,
	})
	packed := webtest.Chart{Name: "demo", Version: "3.0.0", Files: files}.Pack()
	sum := sha256.Sum256(packed)
	plain := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/x/demo.tgz": packed}})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "beep"}}, TLS: true})
	for _, v := range []string{"1.0.0", "1.4.2", "2.0.0"} {
		registry.PushChart(t, "charts/demo", v, ocitest.Chart(t, "demo", v, files))
	}
	repo := gittest.NewRepo(t)
	repo.Commit("chart", map[string]string{"charts/demo/Chart.yaml": "apiVersion: v2\nname: demo\nversion: 4.0.0\n", "charts/demo/templates/cm.yaml": files["templates/cm.yaml"], "other": "x"})
	repo.Git("tag", "v4")
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	ssh := gittest.ServeSSH(t, filepath.Dir(repo.Dir))

	both := func(ca []byte) chart.Access {
		return chart.Access{Default: chart.Credentials{Username: "robot", Password: "beep", CABundle: ca}, URLs: ".*"}
	}
	cases := map[string]struct {
		why    string
		yaml   string
		access chart.Access
		want   []string
	}{
		"Repository":  {why: "a range, a private CA, credentials", yaml: helmYAML("repo: "+helm.URL, "chart: demo", `version: "~1.4"`), access: both(helm.CA), want: want},
		"Newest":      {yaml: helmYAML("repo: "+helm.URL, "chart: demo"), access: both(helm.CA), want: want},
		"OCI":         {yaml: helmYAML("repo: oci://"+registry.Host+"/charts/demo", `version: "^1"`), access: both(registry.CA()), want: want},
		"OCIExact":    {yaml: helmYAML("repo: oci://"+registry.Host+"/charts/demo", "version: 2.0.0"), access: both(registry.CA()), want: want},
		"Archive":     {yaml: helmYAML("chart: " + plain.URL + "/x/demo.tgz"), want: want},
		"Checksum":    {yaml: helmYAML("chart: " + plain.URL + "/x/demo.tgz?checksum=sha256:" + hex.EncodeToString(sum[:])), want: want},
		"ArchivePart": {why: "a part of an archive is the chart", yaml: helmYAML("chart: " + plain.URL + "/x/demo.tgz//demo"), want: []string{"repo-app: (chart)/Chart.yaml", "repo-app: (chart)/templates/cm.yaml"}},
		"Git": {
			why: "the default branch of a repository has any name", yaml: helmYAML("chart: git::" + server.URL + "/repo//charts"), want: want,
		},
		"GitTag": {yaml: helmYAML("chart: git::" + server.URL + "/repo//charts/demo?ref=v4"), want: []string{"repo-app: (chart)/Chart.yaml", "repo-app: (chart)/templates/cm.yaml"}},
		"GitSSH": {
			yaml:   helmYAML("chart: git::ssh://git@" + ssh.Addr + "/repo//charts"),
			access: chart.Access{Default: chart.Credentials{SSHPrivateKey: ssh.ClientKey, KnownHosts: ssh.KnownHosts}, URLs: "git::ssh://.*"}, want: want,
		},
	}
	r := newReader(t, func(c *reader.Config) { c.Git = newRemotes(t) })
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(map[string]string{"app/fleet.yaml": c.yaml})
			in.Access = c.access
			if diff := cmp.Diff(c.want, names(read(t, r, in))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// The index is asked for once in a reading, and only its ETag after that; an
// archive that is known by its digest is not asked for again.
func TestDownloadsAreShared(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}, {Name: "other", Version: "1.0.0"}}})
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("app-%02d/fleet.yaml", i)] = helmYAML("repo: "+helm.URL, "chart: demo", `version: "*"`)
	}
	files["z/fleet.yaml"] = helmYAML("repo: "+helm.URL, "chart: other")
	r := newReader(t, nil)
	first := read(t, r, input(files))
	count := func() [3]int {
		return [3]int{helm.Requests("/index.yaml"), helm.Requests("/archives/demo-1.0.0.tgz"), helm.Requests("/archives/other-1.0.0.tgz")}
	}
	if got := count(); got != [3]int{1, 1, 1} {
		t.Errorf("want each once for 21 bundles, got %v", got)
	}
	sent := helm.Sent()
	second := read(t, r, input(files))
	if got := count(); got != [3]int{2, 1, 1} || helm.Sent() != sent {
		t.Errorf("want one question for the index, and no bytes, got %v and %d bytes", got, helm.Sent()-sent)
	}
	if diff := cmp.Diff(names(first), names(second)); diff != "" {
		t.Errorf("want the same\n%s", diff)
	}
}

// Several readings at once ask once.
func TestReadingsShareAFlight(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	var helm *webtest.Server
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	arrived := make(chan struct{}, 10)
	helm = webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/demo.tgz": func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = w.Write(packed)
	}}})
	r := newReader(t, nil)
	in := func() reader.Input {
		return input(map[string]string{"app/fleet.yaml": helmYAML("chart: " + helm.URL + "/demo.tgz")})
	}
	// One loses patience: the others do not suffer.
	impatient, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := r.Read(impatient, in())
		gone <- err
	}()
	<-arrived
	cancel()
	if err := <-gone; err == nil {
		t.Error("want the error of the context")
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			set, _, err := r.Read(context.WithoutCancel(t.Context()), in())
			if err != nil || len(set.Results) != 1 || set.Results[0].Bundle == nil {
				t.Errorf("want a bundle, got %v, %v", set.All(), err)
			}
		})
	}
	once.Do(func() { close(release) })
	group.Wait()
	if n := helm.Requests("/demo.tgz"); n > 2 {
		t.Errorf("want the download shared, got %d requests", n)
	}
}

// What one tenant's credentials have fetched is not served to another: each has
// to be let in by the source.
func TestTenants(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, Username: "robot", Password: "beep"})
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	sum := sha256.Sum256(packed)
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "beep"}}})
	registry.PushChart(t, "demo", "1.0.0", packed)
	sources := map[string]string{
		"Repository": helmYAML("repo: "+helm.URL, "chart: demo"),
		"Archive":    helmYAML("chart: " + helm.URL + "/archives/demo-1.0.0.tgz"),
		"Checksum":   helmYAML("chart: " + helm.URL + "/archives/demo-1.0.0.tgz?checksum=sha256:" + hex.EncodeToString(sum[:])),
		"OCI":        helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"),
	}
	for name, yaml := range sources {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, nil)
			as := func(user, password, urls string) reader.Input {
				in := input(map[string]string{"app/fleet.yaml": yaml})
				in.Access = chart.Access{Default: chart.Credentials{Username: user, Password: password, BasicHTTP: true}, URLs: urls}
				return in
			}
			read(t, r, as("robot", "beep", ".*"))
			for who, in := range map[string]reader.Input{"other": as("spy", "guess", ".*"), "nobody": as("", "", ""), "not sent": as("robot", "beep", "https://elsewhere/")} {
				if errs := wrong(t, r, in); len(errs) != 1 || strings.Contains(errs[0], "beep") || strings.Contains(errs[0], "guess") {
					t.Errorf("%s: want one error without a password, got %v", who, errs)
				}
			}
			read(t, r, as("robot", "beep", ".*"))
		})
	}
}

// Credentials by directory: each bundle has its own.
func TestCredentialsByPath(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, Username: "robot", Password: "beep"})
	in := input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo"), "b/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo")})
	in.Access = chart.Access{ByPath: map[string]chart.Credentials{"a": {Username: "robot", Password: "beep"}}, URLs: ".*"}
	r := newReader(t, nil)
	set, _, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if set.Results[0].Bundle == nil || !set.Results[1].Broken() {
		t.Errorf("want a read and b refused, got %v", set.All())
	}
}

// An index that names another host does not get it our credentials.
func TestIndexNamesAnotherHost(t *testing.T) {
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	evil := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/demo.tgz": packed}})
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0", URL: evil.URL + "/demo.tgz", Files: nil}}, Username: "robot", Password: "beep"})
	in := input(map[string]string{"app/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo")})
	for _, urls := range []string{".*", helm.URL} {
		in.Access = chart.Access{Default: chart.Credentials{Username: "robot", Password: "beep"}, URLs: urls}
		read(t, newReader(t, nil), in)
	}
	for _, a := range evil.Authorizations() {
		if a != "" {
			t.Errorf("the other host was told %q", a)
		}
	}
}

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
	r := newReader(t, func(c *reader.Config) { c.Offline = true })
	set, _, err := r.Read(t.Context(), input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo")}))
	if err != nil {
		t.Fatal(err)
	}
	if errs := finding.Errors(set.All()); len(errs) != 1 || errs[0].Rule != finding.RuleOffline {
		t.Errorf("want one finding by rule offline, got %v", set.All())
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
	r, err := reader.New(reader.Config{Dir: dir, Limits: reader.Limits{StoreBytes: 4 << 20}})
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

// Somebody cleans up temporary directories: what is gone is fetched again.
func TestStoreIsCleanedUp(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}})
	dir := t.TempDir()
	r := newReader(t, func(c *reader.Config) { c.Dir = dir })
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

// Dependencies are fetched as they are packed, in rounds: also those of a chart
// that was itself downloaded.
func TestDependencies(t *testing.T) {
	var helm *webtest.Server
	sub := webtest.Chart{Name: "sub", Version: "1.2.3"}
	helm = webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{sub}})
	top := webtest.Chart{Name: "top", Version: "1.0.0", Files: map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies:\n- name: sub\n  version: \"^1\"\n  repository: " + helm.URL + "\n",
	}}
	helm.Put("/top.tgz", top.Pack())
	local := map[string]string{
		"local/Chart.yaml":        "apiVersion: v2\nname: local\nversion: 1.0.0\ndependencies:\n- name: sub\n  version: 1.2.3\n  repository: " + helm.URL + "\n",
		"local/templates/cm.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n",
		"remote/fleet.yaml":       helmYAML("chart: " + helm.URL + "/top.tgz"),
	}
	r := newReader(t, nil)
	set := read(t, r, input(local))
	got := strings.Join(names(set), "\n")
	for _, want := range []string{"repo-local: charts/sub-1.2.3.tgz", "repo-remote: (chart)/top/charts/sub-1.2.3.tgz"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
	if n := helm.Requests("/archives/sub-1.2.3.tgz"); n != 1 {
		t.Errorf("want the dependency fetched once, got %d", n)
	}
	again := read(t, newReader(t, nil), input(local))
	for i, r := range set.Results {
		for j, f := range r.Bundle.Spec.Resources {
			if !bytes.Equal([]byte(f.Content), []byte(again.Results[i].Bundle.Spec.Resources[j].Content)) {
				t.Errorf("%s is not the same twice", f.Name)
			}
		}
	}
}

// Bundles that are too much together are refused before they are all in memory.
func TestReadingIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("app-%02d/cm.yaml", i)] = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {a: " + strings.Repeat("x", 20<<10) + "}\n"
	}
	r := newReader(t, func(c *reader.Config) { c.Limits.ReadingBytes = 1 << 20 })
	if _, _, err := r.Read(t.Context(), input(files)); !fault.IsPermanent(err) || fault.ReasonOf(err) != "TooLarge" {
		t.Errorf("want TooLarge, got %v", err)
	}
	for i := range 10 {
		delete(files, fmt.Sprintf("app-%02d/cm.yaml", i))
	}
	read(t, r, input(files))
}
