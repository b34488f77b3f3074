package bundlesource_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
	"github.com/fleetworkspace/fleet/test/raced"
)

// neighbour is a bundle that has nothing to do with what is wrong.
const neighbour = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"

// onlyOne reads a bundle that cannot be made beside one that can, and returns
// the one error, which stands at a line of its fleet.yaml.
func onlyOne(t *testing.T, r *bundlesource.Reader, in bundlesource.Input, yaml string) (finding.Finding, bundle.Result) {
	t.Helper()
	in.Tree = tree(map[string]string{"a/fleet.yaml": "defaultNamespace: x\n" + yaml, "ok/cm.yaml": neighbour})
	set, _, err := r.Read(t.Context(), in)
	if err != nil || len(set.Results) != 2 {
		t.Fatalf("want 2 results, got %v, %v", set, err)
	}
	if set.Results[1].Bundle == nil {
		t.Error("the other bundle was not made")
	}
	errs := finding.Errors(set.Results[0].Findings)
	if len(errs) != 1 || errs[0].Rule != finding.RuleChart || errs[0].Path != "a/fleet.yaml" || errs[0].Line < 3 || set.Results[0].Bundle != nil {
		t.Fatalf("want one error at a line of a/fleet.yaml and no Bundle, got %v", set.Results[0].Findings)
	}
	return errs[0], set.Results[0]
}

// peak runs f and returns how much the heap grew at most.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // GOGC must not change what is measured
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, highest := m.HeapInuse, uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			highest = max(highest, m.HeapInuse)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return highest - min(highest, before)
}

// A fault of our own disk names what could not be kept, and is tried again.
func TestDiskFaults(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "demo", "1.0.0", webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack())
	for name, c := range map[string]struct{ yaml, want string }{
		"Repository": {helmYAML("repo: "+helm.URL, "chart: demo"), helm.URL + "/index.yaml"},
		"Archive":    {helmYAML("chart: " + helm.URL + "/archives/demo-1.0.0.tgz"), helm.URL + "/archives/demo-1.0.0.tgz"},
		"OCI":        {helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"), registry.Host + "/demo"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newReader(t, func(cfg *bundlesource.Config) { cfg.Dir = dir })
			found, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if err := os.RemoveAll(found[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(found[0], nil, 0o600); err != nil {
				t.Fatal(err)
			}
			in := input(nil)
			in.Access.Default.BasicHTTP = true
			f, result := onlyOne(t, r, in, c.yaml)
			if !strings.Contains(f.Message, c.want) || !strings.Contains(f.Message, "not a directory") || strings.Contains(f.Message, dir) || !result.Retry {
				t.Errorf("want %q, why, no name of ours, and another try (%v): %q", c.want, result.Retry, f.Message)
			}
		})
	}
}

// Whatever is in an archive: nothing but an error at the line that names it,
// the neighbours are made, and all that was written is in the store, which is
// empty in the end. The corpus is that of package archive.
func TestEvilArchives(t *testing.T) {
	corpus := filepath.Join("..", "archive", "testdata", "evil")
	list, err := os.ReadDir(corpus)
	if err != nil || len(list) < 50 {
		t.Fatal(len(list), err)
	}
	files := map[string][]byte{}
	for _, f := range list {
		if files["/"+f.Name()], err = os.ReadFile(filepath.Join(corpus, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	zeros := strings.Repeat("\x00", 24<<20)
	files["/bomb.tgz"] = webtest.Chart{Name: "bomb", Version: "1.0.0", Files: map[string]string{"templates/zero": zeros}}.Pack()
	server := webtest.Repository(t, webtest.Options{Files: files})
	dir := t.TempDir()
	small := archive.Limits{Files: 4, Depth: 6, Bytes: 100, FileBytes: 70, PathBytes: 50}
	for _, bomb := range []bool{false, true} {
		cfg := bundlesource.Config{Addresses: address.WithLoopback(), Dir: dir}
		if !bomb {
			cfg.Limits.Unpacked = small
		}
		r, err := bundlesource.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for file := range files {
			if (file == "/bomb.tgz") != bomb {
				continue
			}
			t.Run(path.Base(file), func(t *testing.T) {
				f, result := onlyOne(t, r, input(nil), helmYAML("chart: "+server.URL+file))
				if !strings.Contains(f.Message, server.URL+file) || result.Retry {
					t.Errorf("want the archive named and no other try (%v): %q", result.Retry, f.Message)
				}
			})
		}
		// What was downloaded stays; nothing that was unpacked does.
		err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "blob" && d.Name() != "lock" {
				t.Errorf("%s was left behind", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// An index with false entries fails its own bundle only, and the reader sends
// no request to an address that the index must not name.
func TestLyingIndex(t *testing.T) {
	other := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/demo.tgz": webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()}})
	index := func(name, version, url string) []byte {
		return fmt.Appendf(nil, "apiVersion: v1\nentries:\n  demo:\n  - name: %q\n    version: %q\n    urls: [%q]\n", name, version, url)
	}
	cases := map[string]struct {
		o    webtest.Options
		want string
	}{
		"Digest":    {webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0", Digest: strings.Repeat("ab", 32)}}}, "not what was expected"},
		"File":      {webtest.Options{Index: index("demo", "1.0.0", "file:///etc/passwd")}, "URL"},
		"Password":  {webtest.Options{Index: index("demo", "1.0.0", "http://user:hunter2@"+other.Host+"/demo.tgz")}, "URL"},
		"Name":      {webtest.Options{Index: index("../../demo", "1.0.0", other.URL+"/demo.tgz")}, "name"},
		"Version":   {webtest.Options{Index: index("demo", "1.0.0/../../x", other.URL+"/demo.tgz")}, "version"},
		"Metadata":  {webtest.Options{Index: index("demo", "1.0.0", "http://169.254.169.254/latest/meta-data")}, "169.254.169.254"},
		"Backslash": {webtest.Options{Index: index("demo", "1.0.0", other.URL+`\demo.tgz`)}, "URL"},
		"Page":      {webtest.Options{Index: []byte("<html>please log in</html>")}, "web page"},
		"Aliases":   {webtest.Options{Index: []byte("entries: &a\n  demo: [*a, *a, *a, *a]\n")}, "demo"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := webtest.Repository(t, c.o)
			f, result := onlyOne(t, newReader(t, nil), input(nil), helmYAML("repo: "+server.URL, "chart: demo", `version: ">=0-0"`))
			if !strings.Contains(f.Message, c.want) || strings.Contains(f.Message, "hunter2") || result.Retry {
				t.Errorf("want %q, no password, and no other try (%v): %q", c.want, result.Retry, f.Message)
			}
		})
	}
	if n := other.Requests(""); n > 0 {
		t.Errorf("%d requests were sent for what is no chart", n)
	}
}

// A server that sends without end, or a small file that becomes a large one,
// fills neither memory nor disk.
func TestEndless(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates too")
	}
	server := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{
		"/charts/index.yaml": webtest.Endless(), "/app.tgz": webtest.Endless(),
	}})
	dir := t.TempDir()
	r := newReader(t, func(c *bundlesource.Config) { c.Dir, c.Limits.ArchiveBytes = dir, 32<<20 })
	for source, yaml := range map[string]string{
		"index": helmYAML("repo: "+server.URL+"/charts", "chart: demo"), "archive": helmYAML("chart: " + server.URL + "/app.tgz"),
	} {
		var f finding.Finding
		grown := peak(func() { f, _ = onlyOne(t, r, input(nil), yaml) })
		if !strings.Contains(f.Message, "too large") || grown > 24<<20 {
			t.Errorf("%s: the heap grew by %d MiB: %q", source, grown>>20, f.Message)
		}
		if n := onDisk(t, dir); n > 0 {
			t.Errorf("%s: %d bytes are left on disk", source, n)
		}
	}
}

// Servers that are slow cost a reading a bounded time, whatever many bundles ask
// them; the others are made, and the rest is tried again.
func TestSlowServers(t *testing.T) {
	slow := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{
		"/charts/index.yaml": webtest.Silent(), "/slow.tgz": webtest.Slow(), "/trickle.tgz": webtest.Trickle(10 * time.Millisecond),
	}})
	good := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}})
	files := map[string]string{"a-good/fleet.yaml": helmYAML("repo: "+good.URL, "chart: demo"), "plain/cm.yaml": neighbour}
	for i := range 10 {
		files[fmt.Sprintf("x-%d-index/fleet.yaml", i)] = helmYAML("repo: "+slow.URL+"/charts", "chart: demo")
		files[fmt.Sprintf("x-%d-slow/fleet.yaml", i)] = helmYAML(fmt.Sprintf("chart: %s/slow.tgz?n=%d", slow.URL, i))
		files[fmt.Sprintf("x-%d-trickle/fleet.yaml", i)] = helmYAML(fmt.Sprintf("chart: %s/trickle.tgz?n=%d", slow.URL, i))
	}
	// The first of each would take half a minute or more.
	r := newReader(t, func(c *bundlesource.Config) { c.Limits.Time = 3 * time.Second })
	set, _, err := r.Read(t.Context(), input(files))
	if err != nil || len(set.Results) != len(files) {
		t.Fatalf("want %d results, got %v, %v", len(files), len(set.Results), err)
	}
	for _, result := range set.Results {
		errs := finding.Errors(result.Findings)
		switch {
		case !strings.HasPrefix(result.Dir.Path, "x-"):
			if result.Bundle == nil {
				t.Errorf("%s: the neighbour was not made: %v", result.Dir.Path, errs)
			}
		case len(errs) != 1 || !result.Retry || !strings.Contains(errs[0].Message, slow.Host) || !strings.Contains(errs[0].Message, "more than 3s"):
			t.Errorf("%s: want one error that may pass, got %v", result.Dir.Path, errs)
		}
	}
}

// Downloads go to disk as they come; a chart of 50 MiB is read in far less than
// 256.
func TestMemory(t *testing.T) {
	if testing.Short() || raced.Enabled {
		t.Skip("reads 200 MiB")
	}
	noise := make([]byte, 25<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	big := map[string]string{}
	for i := range 50 {
		big[fmt.Sprintf("files/%02d.txt", i)] = fmt.Sprintf("%x", noise[i<<19:(i+1)<<19])
	}
	packed := webtest.Chart{Name: "demo", Version: "1.0.0", Files: big}.Pack()
	junk := bytes.Repeat(noise, 3) // no chart: it must not be held to learn that
	server := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/demo.tgz": packed, "/junk.tgz": junk}})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "junk", "1.0.0", junk)
	r := newReader(t, nil)
	in := input(nil)
	in.Access.Default.BasicHTTP = true
	for source, yaml := range map[string]string{"archive": helmYAML("chart: " + server.URL + "/junk.tgz"), "registry": helmYAML("repo: oci://"+registry.Host+"/junk", "version: 1.0.0")} {
		if grown := peak(func() { onlyOne(t, r, in, yaml) }); grown > 24<<20 {
			t.Errorf("%s: the heap grew by %d MiB for a download of 75", source, grown>>20)
		}
	}
	in.Tree = tree(map[string]string{"a/fleet.yaml": helmYAML("chart: " + server.URL + "/demo.tgz")})
	grown := peak(func() {
		if set := read(t, r, in); set.Results[0].Bundle == nil {
			t.Error("no bundle")
		}
	})
	if grown > 256<<20 {
		t.Errorf("the heap grew by %d MiB for a chart of 50", grown>>20)
	}
	t.Logf("the heap grew by %d MiB", grown>>20)
}

// The reader sends no request to the metadata addresses of a machine, neither
// directly nor through a proxy, whatever document names them.
func TestMetadataAddresses(t *testing.T) {
	const at = "169.254.169.254"
	moved := webtest.Redirect(http.StatusTemporaryRedirect, "http://"+at+"/latest/meta-data/iam")
	server := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/moved.tgz": moved}})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "demo", "1.0.0", webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack())
	registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		moved(w, r)
		return true
	})
	remote := gittest.ServeHTTP(t, t.TempDir())
	remote.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://"+at+"/repo/info/refs?"+r.URL.RawQuery, http.StatusFound)
		return true
	})
	sources := map[string]string{
		"Repository": helmYAML("repo: http://"+at+"/charts", "chart: demo"), "Archive": helmYAML("chart: http://" + at + "/a.tgz"),
		"OCI": helmYAML("repo: oci://"+at+"/demo", "version: 1.0.0"), "Git": helmYAML("chart: git::http://" + at + "/repo"),
		"SSH":          helmYAML("chart: git::ssh://git@" + at + "/repo"),
		"ArchiveMoved": helmYAML("chart: " + server.URL + "/moved.tgz"), "OCIMoved": helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"),
		"GitMoved": helmYAML("chart: git::" + remote.URL + "/repo"),
	}
	proxy := webtest.StartProxy(t, 0)
	for _, through := range []func(*http.Request) (*url.URL, error){nil, http.ProxyURL(proxy.URL)} {
		remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Proxy: through})
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(t, func(c *bundlesource.Config) { c.Git, c.Proxy = remotes, through })
		for name, yaml := range sources {
			t.Run(name, func(t *testing.T) {
				in := input(nil)
				in.Access.Default.BasicHTTP = true
				if f, result := onlyOne(t, r, in, yaml); !strings.Contains(f.Message, "metadata service") || result.Retry {
					t.Errorf("want a refusal and no other try (%v): %q", result.Retry, f.Message)
				}
			})
		}
		if err := remotes.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, target := range proxy.Targets() {
		if strings.Contains(target, at) {
			t.Errorf("the proxy was asked for %q", target)
		}
	}
}
