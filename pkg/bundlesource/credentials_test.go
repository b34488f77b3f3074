package bundlesource_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

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
			as := func(user, password, urls string) bundlesource.Input {
				in := input(map[string]string{"app/fleet.yaml": yaml})
				in.Access = chart.Access{Default: chart.Credentials{Username: user, Password: password, BasicHTTP: true}, URLs: urls}
				return in
			}
			read(t, r, as("robot", "beep", ".*"))
			for who, in := range map[string]bundlesource.Input{"other": as("spy", "guess", ".*"), "nobody": as("", "", ""), "not sent": as("robot", "beep", "https://elsewhere/")} {
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
		t.Errorf("want a read and b refused, got %v", set.AllFindings())
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
			t.Errorf("the other host got the credentials %q", a)
		}
	}
}

// TestPasswordsStayAtHome checks that user name and password go to the
// repository and not to a host that it redirects to, and to no host without an
// expression that matches.
func TestPasswordsStayAtHome(t *testing.T) {
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	other := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, Files: map[string][]byte{"/demo.tgz": packed}})
	home := webtest.Repository(t, webtest.Options{
		Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, Username: "robot", Password: "beep",
		Handlers: map[string]http.HandlerFunc{
			"/moved/index.yaml": webtest.Redirect(302, other.URL+"/index.yaml"), "/moved.tgz": webtest.Redirect(307, other.URL+"/demo.tgz"),
		},
	})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "beep"}}})
	registry.PushChart(t, "demo", "1.0.0", packed)
	var blobs atomic.Int32
	registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if user, _, _ := r.BasicAuth(); user == "" || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		blobs.Add(1)
		http.Redirect(w, r, other.URL+"/demo.tgz", http.StatusTemporaryRedirect)
		return true
	})
	repo := gittest.NewRepo(t)
	repo.Commit("chart", map[string]string{"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 4.0.0\n"})
	remote := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	remote.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if user, _, _ := r.BasicAuth(); user == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusFound)
		return true
	})
	cases := map[string]struct {
		yaml  string
		works bool
	}{
		"Index":   {helmYAML("repo: "+home.URL+"/moved", "chart: demo"), false}, // its relative URLs are those of the repository
		"Archive": {helmYAML("chart: " + home.URL + "/moved.tgz"), true},
		"Blob":    {helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"), true},
		"Git":     {helmYAML("chart: git::" + remote.URL + "/repo"), false},
		"Plain":   {helmYAML("repo: "+home.URL, "chart: demo"), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(map[string]string{"a/fleet.yaml": c.yaml})
			in.Access.Default = chart.Credentials{Username: "robot", Password: "beep", BasicHTTP: true}
			r := newReader(t, func(cfg *bundlesource.Config) { cfg.Git = newRemotes(t) })
			before := len(home.Authorizations())
			for _, urls := range []string{"", "https://elsewhere/", "http://127.0.0.1.example.com:"} {
				in.Access.URLs = urls
				wrong(t, r, in)
			}
			if n := len(home.Authorizations()); n != before || blobs.Load() > 0 {
				t.Error("credentials were sent although the expression does not match")
			}
			in.Access.URLs = `(git::)?(http|oci)://127\.0\.0\.1:`
			if errs := wrong(t, r, in); (len(errs) == 0) != c.works {
				t.Errorf("got %v", errs)
			}
			blobs.Store(0)
			if reported := other.Authorizations(); len(reported) > 0 {
				t.Errorf("another host got the credentials %q", reported)
			}
		})
	}
}

// An index may name charts of a registry, as large public ones do. Whether the
// registry gets the credentials is decided for the registry alone.
func TestIndexNamesRegistry(t *testing.T) {
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "beep"}}})
	registry.PushChart(t, "charts/demo", "1.2.0+build.1", ocitest.Chart(t, "demo", "1.2.0+build.1", nil))
	helm := webtest.Repository(t, webtest.Options{Index: []byte("apiVersion: v1\nentries:\n  demo:\n  - name: demo\n    version: 1.2.0+build.1\n    digest: " +
		strings.Repeat("ab", 32) + "\n    urls:\n    - oci://" + registry.Host + "/charts/demo:1.2.0_build.1\n")})
	in := input(map[string]string{"a/fleet.yaml": helmYAML("repo: "+helm.URL, "chart: demo", "version: ^1")})
	in.Access = chart.Access{Default: chart.Credentials{Username: "robot", Password: "beep", BasicHTTP: true}, URLs: "http://" + helm.Host + "/|oci://" + registry.Host + "/"}
	if diff := cmp.Diff([]string{"repo-a: (chart)/demo/Chart.yaml"}, names(read(t, newReader(t, nil), in))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	reported := func() (n int) {
		for _, q := range registry.Requests() {
			if q.Authorization != "" {
				n++
			}
		}
		return n
	}
	before := reported()
	for _, urls := range []string{"http://" + helm.Host + "/", ".*"} {
		in.Access.URLs = urls
		if errs := wrong(t, newReader(t, nil), in); len(errs) != 1 || reported() != before {
			t.Errorf("%q does not name the registry, but it got credentials: %v", urls, errs)
		}
	}
}
