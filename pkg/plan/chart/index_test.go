package chart_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/test/raced"
)

// usual is an index as `helm repo index` and chartmuseum write it.
const usual = `apiVersion: v1
entries:
  alpine:
  - apiVersion: v2
    created: "2016-10-06T16:23:20.499814565-06:00"
    description: |-
      Several lines
      entries:
        not: a chart
    digest: sha256:` + sum + `
    home: https://example.com
    name: alpine
    urls:
    - https://example.com/charts/alpine-0.2.0.tgz
    - https://mirror.example.com/alpine-0.2.0.tgz
    version: 0.2.0
  - created: "2016-10-06T16:23:20.499543808-06:00"
    description: "folded
      text: with a colon"
    digest: ` + sum + `
    name: alpine
    urls:
    - alpine-0.1.0.tgz
    version: 0.1.0
  # a comment
  "quoted":
    - name: quoted
      version: 1.0.0
      urls: [charts/quoted-1.0.0.tgz]
  3scale:
  - {name: 3scale, version: 1.10, urls: [a.tgz]}
generated: "2016-10-06T16:23:20.499029981-06:00"
publicKeys:
- key
serverInfo: {}
`

func parse(t testing.TB, text string) chart.Index {
	t.Helper()
	x, err := chart.ParseIndex([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// One index in all its layouts means the same.
func TestParseIndex(t *testing.T) {
	asJSON, err := yaml.YAMLToJSON([]byte(usual))
	if err != nil {
		t.Fatal(err)
	}
	flow := "entries: " + string(asJSON[bytes.Index(asJSON, []byte(`"entries":`))+len(`"entries":`):])
	flow = flow[:strings.LastIndex(flow, `,"generated"`)]
	anchored := "x: &v [{name: alpine, version: 0.2.0, digest: " + sum + ", urls: [https://example.com/charts/alpine-0.2.0.tgz]}]\nentries:\n  alpine: *v\n  quoted: [{name: quoted, version: 1.0.0, urls: [charts/quoted-1.0.0.tgz]}]\n"
	for name, text := range map[string]string{
		"Usual":       usual,
		"WindowsEnds": strings.ReplaceAll(usual, "\n", "\r\n"),
		"Marked":      "\xef\xbb\xbf---\n" + usual,
		"JSON":        string(asJSON),
		"Flow":        flow,
		"Anchors":     anchored,
		"Tabs":        strings.Replace(usual, "serverInfo: {}", "serverInfo: {\n\ta: b}", 1),
		"LastKey":     strings.Replace(usual, "apiVersion: v1\n", "", 1) + "apiVersion: v1\n",
		"NoEnd":       strings.TrimRight(usual[:strings.Index(usual, "generated")], "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			x := parse(t, text)
			got, err := x.Choose("alpine", "")
			want := chart.Entry{Name: "alpine", Version: "0.2.0", URL: "https://example.com/charts/alpine-0.2.0.tgz", Digest: "sha256:" + sum}
			if err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
			if got, err := x.Choose("quoted", "1.x"); err != nil || got.URL != "charts/quoted-1.0.0.tgz" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	x := parse(t, usual)
	if got, err := x.Choose("3scale", ""); err != nil || got.Version != "1.1" {
		t.Errorf("a number is read as the reference reads it: %+v, %v", got, err)
	}
	if got, err := x.Choose("alpine", "0.1.0"); err != nil || got.URL != "alpine-0.1.0.tgz" || got.Digest != "sha256:"+sum {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = x.Choose("not", "")
	if reconcile.ReasonOf(err) != chart.ReasonChartNotFound || !strings.Contains(err.Error(), `it has "3scale", "alpine", "quoted"`) {
		t.Errorf("got %v", err)
	}
	if _, err := parse(t, "apiVersion: v1\nentries: {}\n").Choose("a", ""); reconcile.ReasonOf(err) != chart.ReasonChartNotFound || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("got %v", err)
	}
}

func TestParseIndexRefuses(t *testing.T) {
	tests := map[string]struct{ data, text string }{
		"Empty":      {"  \n", "empty"},
		"WebPage":    {"<!DOCTYPE html><html>login</html>", "web page"},
		"NoEntries":  {"apiVersion: v1\n", "no entries"},
		"EntryList":  {"entries:\n- a\n", "no entries"},
		"EntryText":  {"entries: hello\n", "no entries"},
		"JSONList":   {`{"entries": []}`, "no map"},
		"JSONNone":   {`{"apiVersion": "v1"}`, "no entries"},
		"NoYAML":     {"entries: [\n", "no YAML"},
		"Binary":     {"\x1f\x8b\x08\x00\x00", "no YAML"},
		"Large":      {strings.Repeat("# comment\n", 7<<20), "larger than 64 MiB"},
		"OddLarge":   {"entries: {a: [" + strings.Repeat("{name: a, version: 1.0.0},\n", 400_000) + "]}", "not laid out"},
		"ManyCharts": {"entries:\n" + many(60_000), "more than 50000 charts"},
		"ManyJSON":   {`{"a": "{\"", "entries": {` + strings.Repeat(`"x": 1, `, 50_001) + `"y": 1}}`, "more than 50000 charts"},
		"ManyValues": {"entries: {a: [" + strings.Repeat("a,", 250_001) + "]}", "more than 250000 values"},
		"ManyNested": {"entries: {}\nx:\n" + strings.Repeat(strings.Repeat("- ", 9000)+"\n", 60), "more than 250000 values"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := chart.ParseIndex([]byte(c.data))
			if reconcile.ReasonOf(err) != chart.ReasonInvalidIndex || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.text)
			}
		})
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  chart-%d:\n  - name: x\n", i)
	}
	return b.String()
}

// TestLiesOfAnIndex checks that entries that lead outside of the repository, or
// that contradict themselves, are refused.
func TestLiesOfAnIndex(t *testing.T) {
	entry := func(fields string) string { return "entries:\n  app:\n  - {" + fields + "}\n" }
	tests := map[string]struct{ index, text string }{
		"NameOut":      {entry(`name: ../../etc/cron.d/x, version: 1.0.0, urls: [a.tgz]`), "the name"},
		"NameDots":     {entry(`name: .., version: 1.0.0, urls: [a.tgz]`), "the name"},
		"NameSlash":    {entry(`name: a/b, version: 1.0.0, urls: [a.tgz]`), "the name"},
		"NameControl":  {entry(`name: "a\0b", version: 1.0.0, urls: [a.tgz]`), "the name"},
		"VersionOut":   {entry(`name: app, version: ../../1.0.0, urls: [a.tgz]`), ""},
		"Password":     {entry(`name: app, version: 1.0.0, urls: ["https://u:canary@h/a.tgz"]`), "without user name"},
		"File":         {entry(`name: app, version: 1.0.0, urls: ["file:///etc/passwd"]`), "want http"},
		"SSH":          {entry(`name: app, version: 1.0.0, urls: ["ssh://h/a.tgz"]`), "want http"},
		"Opaque":       {entry(`name: app, version: 1.0.0, urls: ["http:a.tgz"]`), "want http"},
		"Backslash":    {entry(`name: app, version: 1.0.0, urls: ['https:\\h\a.tgz']`), "the URL"},
		"URLControl":   {entry(`name: app, version: 1.0.0, urls: ["https://h/\x1b"]`), "the URL"},
		"NoURL":        {entry(`name: app, version: 1.0.0`), "no URL"},
		"NullURL":      {entry(`name: app, version: 1.0.0, urls: [null]`), "no URL"},
		"LongURL":      {entry(`name: app, version: 1.0.0, urls: ["https://h/` + strings.Repeat("x", 5000) + `"]`), "4096 bytes"},
		"ManyVersions": {"entries:\n  app:\n" + strings.Repeat("  - {name: app, version: 1.0.0}\n", 20_001), "more than 20000 versions"},
		"Broken":       {"entries:\n  app:\n  - {name: app\n", ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			x, err := chart.ParseIndex([]byte(c.index))
			if err == nil {
				_, err = x.Choose("app", "")
			}
			if reason := reconcile.ReasonOf(err); reason != chart.ReasonInvalidIndex && name != "VersionOut" || err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %q", err, c.text)
			}
			if strings.Contains(err.Error(), "canary") || strings.ContainsAny(err.Error(), "\x1b\x00\n") {
				t.Errorf("the message repeats what it must not: %q", err)
			}
		})
	}
	x := parse(t, entry(`name: app, version: ../../1.0.0, urls: [a.tgz]`))
	if _, err := x.Choose("app", "../../1.0.0"); err == nil {
		t.Error("a version that is a path was chosen")
	}
	// A digest in an unknown form is ignored.
	for _, digest := range []string{"md5:abc", "canary", sum[:63], "sha256:" + sum + "0"} {
		if e, err := parse(t, entry(`name: app, version: 1.0.0, urls: [a.tgz], digest: "`+digest+`"`)).Choose("app", ""); err != nil || e.Digest != "" {
			t.Errorf("%s: %+v, %v", digest, e, err)
		}
	}
}

// Aliases of aliases cost nothing; a large index does not need many times its
// size.
func TestIndexMemory(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates too")
	}
	var large strings.Builder
	large.WriteString("apiVersion: v1\nentries:\n")
	for i := range 2000 {
		fmt.Fprintf(&large, "  chart-%d:\n", i)
		for v := range 20 {
			fmt.Fprintf(&large, "  - apiVersion: v2\n    description: %s\n    digest: %s\n    name: chart-%d\n    urls:\n    - a/chart-%d-1.%d.0.tgz\n    version: 1.%d.0\n", strings.Repeat("words ", 40), sum, i, i, v, v)
		}
	}
	tests := map[string]struct {
		text, chart string
		limit       uint64 // of what is allocated
		refused     bool
	}{
		"Large":      {text: large.String(), chart: "chart-77", limit: 8 << 20},
		"Bomb":       {text: bomb(24) + "entries: {app: *a24}\n", chart: "app", limit: 4 << 20},
		"ManyCharts": {text: "entries:\n" + strings.Repeat(many(60_000), 10), chart: "app", limit: 64 << 20, refused: true},
		"ManyValues": {text: "entries:\n  app:\n  - [" + strings.Repeat("a,", 4<<20) + "]\n", chart: "app", limit: 8 << 20, refused: true},
		"Shared": {text: "x: &x [" + strings.Repeat("{name: app, version: 1.0.0, urls: [a.tgz]},", 10_000) + "]\nentries: {" +
			shared(2000) + "app: *x}\n", chart: "app", limit: 64 << 20},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			data := []byte(c.text)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			x, err := chart.ParseIndex(data)
			if err == nil {
				_, err = x.Choose(c.chart, "")
			}
			runtime.ReadMemStats(&after)
			if refused := reconcile.ReasonOf(err) == chart.ReasonInvalidIndex && strings.Contains(err.Error(), "more than"); refused != c.refused {
				t.Errorf("got %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > c.limit {
				t.Errorf("%d KiB were allocated for an index of %d KiB", used>>10, len(data)>>10)
			}
		})
	}
}

func shared(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c%d: *x, ", i)
	}
	return b.String()
}

var (
	someVersions = []string{
		"1.0.0", "v1.0.0", "1.0", "1", "1.0.0+a", "1.0.0+b", "1.0.1-rc.1", "1.0.1-rc.2", "1.0.1", "1.1.0", "1.2.0-0", "1.10.0", "2.0.0", "2.0.0-alpha",
		"0.1.0", "0.0.1", "latest", "", "1.0.0.0", "x", "v2", "10.0.0", "1.2.3-4-g5", "3.0.0-beta+meta",
	}
	someWishes = []string{
		"", "*", "1.0.0", "v1.0.0", "1", "1.0", "1.x", "^1", "~1.0", ">=1.0.0", ">=1.0.0-0", ">0.0.0-0", "<1", "1.0.0+b", "1.0.0+c", "latest", "nonsense ~~",
		"1.0 - 1.2", "^1 || ^2", "=1.0.0", "!=1.0.0", ">=1.0.0 <2.0.0", ">= 1.0.0, < 2.0.0", "x", "   ", "10.0.0", "^0.1", "~0", "2.0.0-alpha", ">=2.0.0-alpha <2.0.0",
	}
)

// The choice is Helm's own, for generated indexes: versions that are equal,
// that are none, and in any order.
func TestChooseIsHelms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	agreed := map[bool]int{}
	rounds := 50
	if raced.Enabled {
		rounds = 20
	}
	for range rounds {
		text := "apiVersion: v1\nentries:\n  app:\n"
		for i := range random.IntN(40) + 1 {
			text += fmt.Sprintf("  - {name: app, version: %q, urls: [\"%d.tgz\"]}\n", someVersions[random.IntN(len(someVersions))], i)
		}
		var helm repo.IndexFile
		if err := yaml.Unmarshal([]byte(text), &helm); err != nil {
			t.Fatal(err)
		}
		helm.SortEntries()
		x := parse(t, text)
		for _, wish := range someWishes {
			want, helmErr := helm.Get("app", wish)
			got, err := x.Choose("app", wish)
			agreed[err == nil]++
			if (helmErr == nil) != (err == nil) || err == nil && (want.Version != got.Version || want.URLs[0] != got.URL) {
				t.Fatalf("%q: Helm takes %v (%v), we %+v (%v) of\n%s", wish, want, helmErr, got, err, text)
			}
		}
	}
	if agreed[true] < 100 || agreed[false] < 100 {
		t.Errorf("too one-sided: %v", agreed)
	}
}

func TestChooseSays(t *testing.T) {
	x := parse(t, "entries:\n  app:\n  - {name: app, version: 2.0.0-rc.1, urls: [a]}\n  - {name: app, version: 1.0.0-rc.1, urls: [a]}\n  odd:\n  - {name: odd, version: one, urls: [a]}\n")
	for _, c := range []struct{ name, version, reason, text string }{
		{"app", "", chart.ReasonVersionNotFound, `chart "app" has no version that is stable; ask for prereleases with a range like >=0-0; the newest are "2.0.0-rc.1", "1.0.0-rc.1"`},
		{"app", ">=1", chart.ReasonVersionNotFound, `satisfies ">=1"`},
		{"app", "one two", chart.ReasonInvalidVersion, `helm.version "one two" is neither a version nor a range`},
		{"odd", "1", chart.ReasonVersionNotFound, "none of its versions is a semantic version"},
	} {
		_, err := x.Choose(c.name, c.version)
		if reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
}

func TestResolve(t *testing.T) {
	tests := []struct{ repo, url, want string }{
		{"https://h/charts", "a-1.tgz", "https://h/charts/a-1.tgz"},
		{"https://h/charts/", "a-1.tgz", "https://h/charts/a-1.tgz"},
		{"https://h", "charts/a-1.tgz", "https://h/charts/a-1.tgz"},
		{"https://h/charts", "/files/a.tgz", "https://h/files/a.tgz"},
		{"https://h/charts", "../files/a.tgz", "https://h/files/a.tgz"},
		{"https://h/charts", "https://other/a.tgz?x=1", "https://other/a.tgz?x=1"},
		{"https://h/charts?sig=a%2Fb", "a.tgz", "https://h/charts/a.tgz?sig=a%2Fb"},
		{"https://h/charts?sig=1", "a.tgz?own=2", "https://h/charts/a.tgz?own=2"},
		{"https://h/charts?sig=1", "//other/a.tgz", "https://other/a.tgz"},
		{"https://h/charts?sig=1", "https://other/a.tgz", "https://other/a.tgz"},
		{"https://h/a%2Fb", "c.tgz", "https://h/a%2Fb/c.tgz"},
		{"https://u:p@h/charts", "a.tgz", "https://u:p@h/charts/a.tgz"},
	}
	for _, c := range tests {
		if got, err := (chart.Entry{URL: c.url}).Resolve(c.repo); err != nil || got != c.want {
			t.Errorf("%s in %s: got %s, %v; want %s", c.url, c.repo, got, err, c.want)
		}
	}
	for repo, want := range map[string]string{
		"https://h": "https://h/index.yaml", "https://h/a/": "https://h/a/index.yaml", "https://h/a?sig=b%2Fc": "https://h/a/index.yaml?sig=b%2Fc",
	} {
		if got, err := chart.IndexURL(repo); err != nil || got != want {
			t.Errorf("%s: got %s, %v", repo, got, err)
		}
	}
}

func TestChooseTag(t *testing.T) {
	tests := []struct {
		tags          []string
		version, want string
	}{
		{[]string{"0.1.0", "0.2.0", "0.3.0"}, "0.2.0", "0.2.0"},
		{[]string{"0.3.0", "0.2.0", "0.10.0"}, "", "0.10.0"},
		{[]string{"0.1.0", "0.1.9", "0.2.0"}, "0.*.0", "0.2.0"},
		{[]string{"0.1.0", "0.4.3", "0.9.9", "1.0.1"}, "> 0.1.0, <= 1.0.0", "0.9.9"},
		{[]string{"1.0.0_b1", "1.0.0_b2"}, "1.0.0+b1", "1.0.0_b1"},
		{[]string{"1.0.0_b2", "1.0.0_b1"}, "1.0.0", "1.0.0_b1"},
		{[]string{"1.0.0-rc.1", "0.9.0", "latest", "sha256-abc.sig"}, "", "0.9.0"},
		{[]string{"1.0.0-rc.1", "0.9.0"}, ">=0-0", "1.0.0-rc.1"},
		{[]string{"1.2", "1.2.5"}, "1.2", "1.2"},
		{[]string{"v1.2.5", "1.2.4"}, "1.2.x", "1.2.4"},
		{[]string{"v1.2.5", "v1.2.4"}, "1.2.x", "v1.2.5"},
		{[]string{"latest"}, "latest", "latest"},
	}
	for _, c := range tests {
		if got, err := chart.ChooseTag(c.tags, c.version); err != nil || got != c.want {
			t.Errorf("%q of %q: got %q, %v; want %q", c.version, c.tags, got, err, c.want)
		}
	}
	for version, reason := range map[string]string{"2.x": chart.ReasonVersionNotFound, "not a version": chart.ReasonInvalidVersion} {
		if _, err := chart.ChooseTag([]string{"1.0.0", "1.0.1", "1.0.2", "1.0.3", "a"}, version); reconcile.ReasonOf(err) != reason {
			t.Errorf("%s: %v", version, err)
		}
	}
	for version, want := range map[string]string{"1.0.0": "1.0.0", "1.0.0+b": "1.0.0_b", "v1.2": "v1.2", "^1": "", "": "", "1.x": ""} {
		if got, ok := chart.ExactTag(version); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", version, got, ok)
		}
	}
}

// Where Helm finds a tag, we find the same one (or one of the same version).
func TestChooseTagIsHelms(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 200 {
		var tags, helms []string
		for range random.IntN(10) + 1 {
			tags = append(tags, strings.ReplaceAll(strings.TrimSpace(someVersions[random.IntN(len(someVersions))]), "+", "_"))
		}
		helms = helmTags(tags)
		for _, wish := range someWishes {
			if _, exact := chart.ExactTag(wish); exact {
				continue // Helm does not ask for tags then
			}
			want, err := registry.GetTagMatchingVersionOrConstraint(helms, wish)
			if err != nil {
				continue
			}
			found++
			got, err := chart.ChooseTag(tags, wish)
			if core := func(s string) string { s, _, _ = strings.Cut(strings.ReplaceAll(s, "_", "+"), "+"); return s }; err != nil || core(got) != core(want) {
				t.Fatalf("%q of %q: Helm takes %q, we %q (%v)", wish, tags, want, got, err)
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d", found)
	}
}
