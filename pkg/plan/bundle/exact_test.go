package bundle

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// A binary file is stored in the bytes that rancher/fleet's compressor makes:
// compress/gzip with its default level, no name, no time.
func TestCompressedBytes(t *testing.T) {
	data := bytes.Repeat([]byte("text\xff"), 1000)
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := Assemble(files(map[string]string{"d/a": string(data), "d/x": "\xff"}), Dir{Path: "d"}, Options{})
	got := r.Bundle.Spec.Resources
	if want := base64.StdEncoding.EncodeToString(zip.Bytes()); got[0].Content != want {
		t.Errorf("want %s\ngot %s", want, got[0].Content)
	}
	if want := "H4sIAAAAAAAA//r/HwAAAP//DwkA/wEAAAA="; got[1].Content[:14] != want[:14] {
		t.Errorf("the header is %s", got[1].Content)
	}
}

func TestTextSize(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x300; r++ {
		all.WriteRune(r)
	}
	all.WriteString("\u2027\u2028\u2029\u202a\U0001f600\ufffd\xff\xc3\x28\xe2\x80")
	for _, s := range append(strings.Split(all.String(), ""), all.String(), "") {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := textSize(s); got != len(raw)-2 {
			t.Errorf("%q: got %d, want %d", s, got, len(raw)-2)
		}
	}
}

// The sum of what is counted is the length of the JSON, and at exactly
// 1,000,000 bytes of it everything is compressed. What is measured has no
// namespace yet but the one that fleet.yaml deploys to, as in rancher/fleet.
func TestCompressionThreshold(t *testing.T) {
	for _, options := range []string{"", "namespace: target\n", "labels: {a: b}\nhelm: {values: {a: 1}}\n"} {
		assemble := func(n int) *fleet.Bundle {
			r := Assemble(files(map[string]string{"d/fleet.yaml": options, "d/a.txt": strings.Repeat("x", n), "d/b.txt": "<\n", "d/c.txt": "", "d/e.bin": "\xff"}), Dir{Path: "d"},
				Options{Repo: "repo", Namespace: "fleet-default"})
			if r.Bundle == nil {
				t.Fatal(texts(r.Findings))
			}
			return r.Bundle
		}
		size := func(b *fleet.Bundle) int {
			b = b.DeepCopy()
			b.Kind, b.APIVersion, b.Namespace = "", "", b.Spec.TargetNamespace
			raw, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			return len(raw)
		}
		n := 900_000
		n += 999_999 - size(assemble(n))
		if b := assemble(n); size(b) != 999_999 || b.Spec.Resources[0].Encoding != "" {
			t.Errorf("%q: %d bytes: encoding %q", options, size(b), b.Spec.Resources[0].Encoding)
		}
		for i, r := range assemble(n + 1).Spec.Resources {
			if r.Encoding != fleet.EncodingBase64Gzip {
				t.Errorf("%q: at 1,000,000 bytes resource %d has encoding %q", options, i, r.Encoding)
			}
		}
	}
}

// null in a values file removes nothing here: it goes over what is there, and
// Helm sees it. As rancher/fleet's MergeMaps.
func TestValuesNull(t *testing.T) {
	r := Assemble(files(map[string]string{
		"d/fleet.yaml": "helm: {chart: ., values: {a: {x: 1, z: 2}, c: [1]}, valuesFiles: [one.yaml, empty.yaml, /sub/two.yaml]}",
		"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/one.yaml": "a: {x: null}\nb: null\nc: {m: 1}\n", "d/empty.yaml": "", "d/sub/two.yaml": "b: {z: 1}\n", "d/two.yaml": "skipped by its last part",
	}), Dir{Path: "d"}, Options{Repo: "repo"})
	if r.Bundle == nil {
		t.Fatal(texts(r.Findings))
	}
	want := map[string]any{"a": map[string]any{"x": nil, "z": 2.0}, "b": map[string]any{"z": 1.0}, "c": map[string]any{"m": 1.0}}
	if diff := cmp.Diff(want, r.Bundle.Spec.Helm.Values.Data); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Chart.yaml", "sub/two.yaml"}, names(r.Bundle)); diff != "" {
		t.Error(diff)
	}
	if data, err := options.BundleValuesSecretData(r.Bundle.Spec); err != nil || !strings.Contains(string(data["values.yaml"]), `"x":null`) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestImageScans(t *testing.T) {
	const scans = "name: other\nlabels: {a: b}\nannotations: {c: d}\nimageScans:\n- image: ''\n- name: unused\n  image: nginx\n  tagName: nginx\n  policy: {semver: {range: '*'}}\n"
	assemble := func(text string, on bool) Result {
		return Assemble(files(map[string]string{"d/fleet.yaml": text, "d/cm.yaml": configMap}), Dir{Path: "d"},
			Options{Repo: "repo", Namespace: "ns", ImageScans: on, Labels: map[string]string{fleet.LabelRepoName: "repo", fleet.LabelCommit: "1"}})
	}
	r := assemble(scans, true)
	if r.Bundle == nil || len(r.Scans) != 1 {
		t.Fatalf("%v, %v", texts(r.Findings), r.Scans)
	}
	s := r.Scans[0]
	if s.Name != "imagescan-repo-d-1" || s.Namespace != "ns" || s.Spec.Image != "nginx" || s.Spec.TagName != "nginx" || s.Spec.GitRepoName != "repo" || s.Spec.Policy.SemVer == nil {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]any{r.Bundle.Labels, r.Bundle.Annotations}, []any{s.Labels, s.Annotations}); diff != "" {
		t.Error(diff)
	}
	later := r.withCommit("2")
	if later.Scans[0].Labels[fleet.LabelCommit] != "2" || later.Bundle.Labels[fleet.LabelCommit] != "2" || s.Labels[fleet.LabelCommit] != "1" || r.Bundle.Labels[fleet.LabelCommit] != "1" {
		t.Error("another commit is for the copy only, bundle and scans alike")
	}
	for text, want := range map[string]string{
		scans: "d/fleet.yaml:5:1: error: imageScans: image scanning is switched off in this Fleet [value]",
	} {
		if r := assemble(text, false); !strings.Contains(strings.Join(texts(r.Findings), "\n"), want) || r.Bundle != nil || r.Scans != nil || r.Name != "other" {
			t.Errorf("want %s\ngot %v", want, texts(r.Findings))
		}
	}
	if r := assemble("imageScans:\n- image: nginx\n", true); !strings.Contains(strings.Join(texts(r.Findings), "\n"), "d/fleet.yaml:2:3: error: an image scan must have a tagName") {
		t.Error(texts(r.Findings))
	}
}

// A directory that exists and is empty is not the same as one that is gone.
func TestEmptiness(t *testing.T) {
	cases := map[string]struct {
		why   string
		tree  map[string]string
		paths []string
		want  []string // name and what it is
		empty bool
	}{
		"Gone":        {tree: map[string]string{"e/cm.yaml": configMap}, paths: []string{"d", "e"}, want: []string{"repo-e bundle"}},
		"NoneAtAll":   {tree: map[string]string{"e/cm.yaml": configMap}, paths: []string{"d"}, empty: true},
		"OnlyOptions": {tree: map[string]string{"d/fleet.yaml": "name: mine", "e/cm.yaml": configMap}, paths: []string{"d", "e"}, want: []string{"mine empty", "repo-e bundle"}},
		"OnlyText":    {why: "no YAML, no bundle, but it may have been one", tree: map[string]string{"d/README.md": "x", "e/cm.yaml": configMap}, paths: []string{"*"}, want: []string{"repo-d empty", "repo-e bundle"}},
		"AllIgnored":  {tree: map[string]string{"d/cm.yaml": configMap, "d/.fleetignore": "*.yaml", "e/cm.yaml": configMap}, paths: []string{"*"}, want: []string{"repo-d empty", "repo-e bundle"}},
		"Nested":      {tree: map[string]string{"d/fleet.yaml": "", "d/e/fleet.yaml": "", "d/e/cm.yaml": configMap}, want: []string{"repo-d bundle", "repo-d-e bundle"}},
		"NothingLeft": {tree: map[string]string{"d/fleet.yaml": ""}, want: []string{"repo-d empty"}, empty: true},
		"Broken":      {tree: map[string]string{"d/fleet.yaml": "helm: 5"}, want: []string{"repo-d broken"}},
		"EmptyChart":  {why: "a chart from elsewhere is something", tree: map[string]string{"d/fleet.yaml": "helm: {repo: 'oci://r.example/c'}"}, want: []string{"repo-d missing"}, empty: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set := Read(files(c.tree), c.paths, nil, Options{Repo: "repo"})
			var got []string
			for _, r := range set.Results {
				what := map[bool]string{r.Bundle != nil: "bundle", r.Broken(): "broken", r.Empty: "empty", len(r.Missing) > 0: "missing"}[true]
				got = append(got, fmt.Sprintf("%s %s", r.Name, what))
				if r.Empty && !strings.Contains(r.EmptyFinding().String(), "stays as it was") {
					t.Error(r.EmptyFinding())
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || set.Empty() != c.empty {
				t.Errorf("%s, empty %v\n-want +got\n%s", c.why, set.Empty(), diff)
			}
		})
	}
}
