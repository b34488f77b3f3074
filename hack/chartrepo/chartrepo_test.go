package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/repo"
)

// makeRepo runs the command and returns the index that it wrote.
func makeRepo(t *testing.T, args ...string) *repo.IndexFile {
	t.Helper()
	o, err := parse(args, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	o.log = io.Discard
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	index, err := repo.LoadIndexFile(filepath.Join(o.out, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func newest(t *testing.T, index *repo.IndexFile, name string) *repo.ChartVersion {
	t.Helper()
	v, err := index.Get(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What is packed is what lies in charts, under the version that was asked for.
func TestPackages(t *testing.T) {
	dir := t.TempDir()
	index := makeRepo(t, "-out="+dir, "-version=v1.2.3", "-epoch=1000000000")
	for _, name := range names {
		entry := newest(t, index, name)
		if entry.Version != "1.2.3" || entry.AppVersion != "1.2.3" || !entry.Created.Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s: %s of %s, made %s", name, entry.Version, entry.AppVersion, entry.Created)
		}
		packed, err := loader.Load(filepath.Join(dir, entry.URLs[0]))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := loader.Load(filepath.Join("..", "..", "charts", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files(plain), files(packed)); diff != "" {
			t.Errorf("%s: not what lies in charts\n%s", name, diff)
		}
		if packed.Metadata.KubeVersion == "" {
			t.Errorf("%s does not say for which Kubernetes it is", name)
		}
	}
}

// files are the files of a chart but its Chart.yaml.
func files(c *chart.Chart) map[string]string {
	out := map[string]string{}
	for _, f := range c.Raw {
		if f.Name != "Chart.yaml" {
			out[f.Name] = string(f.Data)
		}
	}
	return out
}

// Made again it is the same, byte for byte.
func TestReproducible(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	makeRepo(t, "-out="+a, "-rancher", "-epoch=1000000000")
	makeRepo(t, "-out="+b, "-rancher", "-epoch=1000000000")
	list, err := os.ReadDir(a)
	if err != nil || len(list) != len(names)+1 {
		t.Fatal(list, err)
	}
	for _, f := range list {
		one, err := os.ReadFile(filepath.Join(a, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if other, _ := os.ReadFile(filepath.Join(b, f.Name())); !bytes.Equal(one, other) {
			t.Errorf("%s differs", f.Name())
		}
	}
}

// A new version is added to those that are there.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	makeRepo(t, "-out="+dir, "-rancher", "-version=1.0.0", "-epoch=1000000000")
	index := makeRepo(t, "-out="+dir, "-rancher", "-version=1.10.0", "-epoch=1100000000")
	var have []string
	for _, v := range index.Entries["fleet"] {
		have = append(have, v.Version+" "+v.Created.UTC().Format(time.DateOnly))
	}
	if diff := cmp.Diff([]string{"1001.10.0+up1.10.0 2004-11-09", "1001.0.0+up1.0.0 2001-09-09"}, have); diff != "" {
		t.Error(diff)
	}
}

// rancherCharts are the Fleet charts of Rancher's lines, the last patch of each
// where that is known.
var rancherCharts = []string{
	"100.2.3+up0.5.3", "102.2.7+up0.8.6", "103.1.15+up0.9.17", "104.2.4+up0.10.16", "105.1.7+up0.11.14",
	"106.1.17+up0.12.19", "107.0.15+up0.13.15", "108.0.10+up0.14.10", "109.0.6+up0.15.6", "110.0.1+up0.16.1",
}

// What Rancher's catalog and its manager of system charts read: versions, which
// chart belongs to which, where each is installed, and for which clusters.
func TestRancherAcceptsIt(t *testing.T) {
	index := makeRepo(t, "-out="+t.TempDir(), "-rancher", "-version=v0.1.0")
	for _, name := range names {
		entry := newest(t, index, name)
		if entry.Version != "1000.1.0+up0.1.0" {
			t.Errorf("%s has version %s", name, entry.Version)
		}
		installed, err := semver.StrictNewVersion(entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		// An installed chart stays if it is not below the one that Rancher asks for.
		for _, least := range rancherCharts {
			if installed.LessThan(semver.MustParse(least)) {
				t.Errorf("%s %s would be replaced by %s", name, installed, least)
			}
		}
		a := entry.Annotations
		if a["catalog.cattle.io/release-name"] != name || a["catalog.cattle.io/namespace"] != "cattle-fleet-system" {
			t.Errorf("%s would be installed as %v", name, a)
		}
		if a["catalog.cattle.io/kube-version"] != entry.KubeVersion {
			t.Errorf("%s is for Kubernetes %q, and for Rancher %q", name, entry.KubeVersion, a["catalog.cattle.io/kube-version"])
		}
		fits(t, name, a["catalog.cattle.io/kube-version"], map[string]bool{"v1.29.9": false, "v1.30.0": true, "v1.33.5+rke2r1": true, "v1.34.1-gke.100": true, "v1.36.3": true})
		fits(t, name, a["catalog.cattle.io/rancher-version"], map[string]bool{"2.8.9": false, "2.9.0": true, "2.14.3": true, "2.15.0-rc1": true, "2.16.0": true})
	}
	other, how, _ := strings.Cut(newest(t, index, "fleet").Annotations["catalog.cattle.io/auto-install"], "=")
	if how != "match" || newest(t, index, other).Version != newest(t, index, "fleet").Version {
		t.Errorf("with fleet Rancher would install %s=%s", other, how)
	}
	for name, hidden := range map[string]string{"fleet": "", "fleet-crd": "true", "fleet-agent": "true"} {
		if got := newest(t, index, name).Annotations["catalog.cattle.io/hidden"]; got != hidden {
			t.Errorf("%s: hidden %q", name, got)
		}
	}
}

func fits(t *testing.T, name, constraint string, versions map[string]bool) {
	t.Helper()
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		t.Fatalf("%s: %q: %v", name, constraint, err)
	}
	for v, want := range versions {
		if got := c.Check(semver.MustParse(v)); got != want {
			t.Errorf("%s: %s fits %q: %v", name, v, constraint, got)
		}
	}
}

// A folder that a web server shows is a repository for Helm.
func TestServed(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for _, url := range []string{"", server.URL + "/"} {
		makeRepo(t, "-out="+dir, "-rancher", "-url="+url)
		settings := cli.New()
		settings.RepositoryCache = t.TempDir()
		found, err := repo.FindChartInRepoURL(server.URL, "fleet", "", "", "", "", getter.All(settings))
		if err != nil {
			t.Fatal(err)
		}
		get, err := getter.NewHTTPGetter()
		if err != nil {
			t.Fatal(err)
		}
		text, err := get.Get(found)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := loader.LoadArchive(text); err != nil || c.Name() != "fleet" {
			t.Errorf("%s is not the chart: %v", found, err)
		}
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		args []string
		want string
	}{
		"NoOut":    {why: "it would not know where to write", want: "-out"},
		"Version":  {why: "Helm wants three numbers", args: []string{"-out=a", "-version=v1.2"}, want: "v1.2"},
		"Metadata": {why: "what follows the plus is Rancher's", args: []string{"-out=a", "-version=1.2.3+x"}, want: "1.2.3+x"},
		"Epoch":    {why: "not a time", args: []string{"-out=a", "-epoch=-1"}, want: "-1"},
		"Argument": {why: "a forgotten dash", args: []string{"-out=a", "rancher"}, want: "rancher"},
	} {
		if _, err := parse(c.args, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s: got %v", name, c.why, err)
		}
	}
}
