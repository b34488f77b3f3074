package chart_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Whatever is written: what is found can be asked over the network only, stays
// below its source, and means the same when it is read again.
func FuzzLocate(f *testing.F) {
	for _, s := range []string{
		"https://charts.example.com|app|1.0.0", "oci://h:5000/a/b:1@sha256:" + sum + "||", "oci://h/a|b|", "|https://u:p@h/a.tgz//b?checksum=sha256:" + sum + "&archive=zip|",
		"|git::https://h/r.git//a/b?ref=c&depth=1&sshkey=AAAA|", "|git@h:o/r//x?ref=y|", "|ssh::git@h:o/r|", "|github.com/o/r/a/b//c?ref=d|", "|bitbucket.org/o/r|",
		`|C:\x|`, "|../x|", "|file:///etc/passwd|", "|git::ext::sh|", "|http::http::http://h|", "|git::git::https://h/r|", "|https://h/a//b//c/../d|", "|s3::x|", "|::|", "|?|", "|//|",
	} {
		parts := strings.SplitN(s, "|", 3)
		f.Add(parts[0], parts[1], parts[2], strings.Contains(s, "oci"))
	}
	f.Fuzz(func(t *testing.T, repo, name, version string, archive bool) {
		r := chart.Request{Repo: repo, Chart: name, Version: version, Archive: archive}
		l, err := chart.Locate(r)
		if err != nil {
			if !reconcile.IsTerminal(err) || strings.ContainsAny(err.Error(), "\n\x00\x1b") || len(err.Error()) > 2000 {
				t.Errorf("%q", err)
			}
			return
		}
		for part := range strings.SplitSeq(l.Subdir, "/") {
			if part == ".." {
				t.Errorf("leads out: %+v", l)
			}
		}
		if strings.HasPrefix(l.Subdir, "/") || strings.ContainsAny(l.URL+l.Ref+l.Subdir, "\n\x00") {
			t.Errorf("%+v", l)
		}
		scheme, _, ok := strings.Cut(l.URL, "://")
		allowed := map[chart.Kind]string{chart.Repository: "http https", chart.Archive: "http https", chart.OCI: "oci", chart.Git: "http https ssh"}[l.Kind]
		if ok && !strings.Contains(allowed, strings.ToLower(scheme)) || !ok && (l.Kind != chart.Git || !strings.Contains(l.URL, "@")) {
			t.Errorf("%+v", l)
		}
		if ok && l.Kind != chart.Git {
			if u, err := url.Parse(l.URL); err != nil || u.Hostname() == "" {
				t.Errorf("%+v: %v", l, err)
			}
		}
		if again, err := chart.Locate(r); err != nil || again.URL != l.URL {
			t.Errorf("%+v then %+v, %v", l, again, err)
		}
	})
}

// Whatever an index says: what is chosen is a chart's name, a version and a URL
// that may be fetched, and it takes neither time nor memory without bound.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(usual), "alpine", "")
	f.Add([]byte(usual), "quoted", "1.x")
	f.Add([]byte(`{"entries":{"a":[{"version":"1.0.0","urls":["a.tgz"]}]}}`), "a", "^1")
	f.Add([]byte(bomb(5)+"entries: {app: *a5}\n"), "app", "")
	f.Add([]byte("entries:\n  a: &a\n  - *a\n"), "a", "")
	f.Add([]byte("entries: {a: [{name: ../x, version: 1.0.0, urls: ['file:///x']}]}"), "a", ">=0-0")
	f.Fuzz(func(t *testing.T, data []byte, name, version string) {
		x, err := chart.ParseIndex(data)
		if err == nil {
			var e chart.Entry
			if e, err = x.Choose(name, version); err == nil {
				if strings.ContainsAny(e.Name, `/\`) || e.Name == ".." || strings.Contains(e.Version, "..") || strings.ContainsAny(e.Version, `/\`) {
					t.Errorf("%+v", e)
				}
				if at, err := e.Resolve("https://h/charts"); err == nil {
					if u, err := url.Parse(at); err != nil || u.User != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "oci" {
						t.Errorf("%+v is at %q", e, at)
					}
				}
				return
			}
		}
		if !reconcile.IsTerminal(err) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
			t.Errorf("%q", err)
		}
	})
}
