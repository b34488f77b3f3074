package bundlesource_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

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
	r := newReader(t, func(c *bundlesource.Config) { c.Git = newRemotes(t) })
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

// Charts of Helm repositories, archives and registries are downloaded through a proxy with
// credentials.
func TestSourcesThroughProxies(t *testing.T) {
	demo := webtest.Chart{Name: "demo", Version: "1.0.0"}
	helm := webtest.Repository(t, webtest.Options{
		Charts: []webtest.Chart{demo}, Files: map[string][]byte{"/x/demo.tgz": demo.Pack()}, Username: "robot", Password: "beep", TLS: true,
	})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "beep"}}, TLS: true})
	registry.PushChart(t, "charts/demo", "1.0.0", ocitest.Chart(t, "demo", "1.0.0", nil))
	connect, socks := webtest.StartProxyWithLogin(t, "ana", "canary"), webtest.StartSOCKS(t, "ana", "canary")
	proxies := map[string]struct {
		at       *url.URL
		connects func() int
	}{
		"CONNECT": {connect.URL, func() int { return len(connect.Targets()) }},
		"SOCKS":   {socks.URL, func() int { return int(socks.Connects.Load()) }},
	}
	cases := map[string]struct {
		yaml string
		ca   []byte
	}{
		"Repository": {helmYAML("repo: "+helm.URL, "chart: demo"), helm.CA},
		"Archive":    {helmYAML("chart: " + helm.URL + "/x/demo.tgz"), helm.CA},
		"OCI":        {helmYAML("repo: oci://"+registry.Host+"/charts/demo", "version: 1.0.0"), registry.CA()},
	}
	for name, c := range cases {
		for kind, proxy := range proxies {
			t.Run(name+kind, func(t *testing.T) {
				before := proxy.connects()
				r := newReader(t, func(c *bundlesource.Config) { c.Proxy = http.ProxyURL(proxy.at) })
				in := input(map[string]string{"app/fleet.yaml": c.yaml})
				in.Access = chart.Access{Default: chart.Credentials{Username: "robot", Password: "beep", CABundle: c.ca}, URLs: ".*"}
				if got := names(read(t, r, in)); len(got) == 0 {
					t.Error("the bundle has no chart")
				}
				if proxy.connects() == before {
					t.Error("the chart was downloaded past the proxy")
				}
			})
		}
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
	zipped := 0
	for _, h := range helm.Headers() {
		if h.Get("Accept-Encoding") == "gzip" {
			zipped++
		}
	}
	if zipped != 1 {
		t.Errorf("want the index asked for gzipped and no archive, got %d", zipped)
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

// Readings at the same time share one download: a reading that starts during
// the download waits for it, and a later one gets the answer that nothing has
// changed.
func TestReadingsShareAFlight(t *testing.T) {
	release := make(chan struct{})
	var brought atomic.Int32
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	arrived := make(chan struct{}, 10)
	helm := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/demo.tgz": func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("If-None-Match") == `"one"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		brought.Add(1)
		_, _ = w.Write(packed)
	}}})
	r := newReader(t, nil)
	in := func() bundlesource.Input {
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
				t.Errorf("want a bundle, got %v, %v", set.AllFindings(), err)
			}
		})
	}
	if n := helm.Requests("/demo.tgz"); n != 1 {
		t.Errorf("want one request under way, got %d", n)
	}
	close(release)
	group.Wait()
	if n := brought.Load(); n != 1 {
		t.Errorf("want it brought once, got %d", n)
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

// A version is the tag of that name, and else what satisfies it.
func TestTags(t *testing.T) {
	registry := ocitest.Start(t, ocitest.Options{})
	for _, v := range []string{"1.2.0", "1.2.7", "1.3.0", "2.0.0"} {
		registry.PushChart(t, "demo", v, ocitest.Chart(t, "demo", v, nil))
	}
	r := newReader(t, nil)
	for version, want := range map[string]string{"1.2.0": "1.2.0", "1.2": "1.2.7", "v1.2.0": "1.2.0", "1": "1.3.0", "": "2.0.0", "~1.2.1": "1.2.7", "9.9.9": ""} {
		in := input(map[string]string{"a/fleet.yaml": helmYAML("repo: oci://"+registry.Host+"/demo", fmt.Sprintf("version: %q", version))})
		in.Access.Default.BasicHTTP = true
		if want == "" {
			if errs := wrong(t, r, in); len(errs) != 1 || !strings.Contains(errs[0], `"1.2.0", "1.2.7", "1.3.0" and 1 more`) {
				t.Errorf("%s: want an error that says what there is, got %v", version, errs)
			}
			continue
		}
		set := read(t, r, in)
		if got := set.Results[0].Bundle.Spec.Resources[0].Content; !strings.Contains(got, "version: "+want+"\n") {
			t.Errorf("%s: want %s, got %q", version, want, got)
		}
	}
}

// A git repository is asked once in a reading, also if it answers that it cannot.
func TestGitIsAskedOnce(t *testing.T) {
	remote := gittest.ServeHTTP(t, t.TempDir())
	remote.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	files := map[string]string{}
	for i := range 6 {
		files[fmt.Sprintf("a%d/fleet.yaml", i)] = helmYAML(fmt.Sprintf("chart: git::%s/repo//charts/%d", remote.URL, i))
	}
	r := newReader(t, func(c *bundlesource.Config) { c.Git = newRemotes(t) })
	if errs := wrong(t, r, input(files)); len(errs) != 6 {
		t.Errorf("want 6 errors, got %v", errs)
	}
	if n := len(remote.Requests()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

// The same bytes from two places are kept once.
func TestContentIsAddressed(t *testing.T) {
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	one := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/one.tgz": packed}})
	two := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/two.tgz": packed}})
	dir := t.TempDir()
	r := newReader(t, func(c *bundlesource.Config) { c.Dir = dir })
	read(t, r, input(map[string]string{"a/fleet.yaml": helmYAML("chart: " + one.URL + "/one.tgz"), "b/fleet.yaml": helmYAML("chart: " + two.URL + "/two.tgz")}))
	blobs, err := filepath.Glob(filepath.Join(dir, "*", "*", "blob"))
	if err != nil || len(blobs) != 1 || one.Requests("") != 1 || two.Requests("") != 1 {
		t.Errorf("want both asked and one file, got %v, %v", blobs, err)
	}
}

// Repositories, archives and registries are asked through the proxy.
func TestProxy(t *testing.T) {
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, TLS: true})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "demo", "1.0.0", ocitest.Chart(t, "demo", "1.0.0", nil))
	proxy := webtest.StartProxy(t, 0)
	r := newReader(t, func(c *bundlesource.Config) { c.Proxy = http.ProxyURL(proxy.URL) })
	in := input(map[string]string{
		"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo"), "b/fleet.yaml": helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"),
	})
	in.Access.Default = chart.Credentials{CABundle: helm.CA, BasicHTTP: true}
	read(t, r, in)
	got := strings.Join(proxy.Targets(), "\n")
	for _, want := range []string{"CONNECT " + helm.Host, "GET http://" + registry.Host + "/v2/demo/blobs/"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q among\n%s", want, got)
		}
	}
}
