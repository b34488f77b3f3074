package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStartsGoroutines(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		want bool
	}{
		"Pure":      {why: "nothing runs beside the caller", text: "import \"strings\"\nfunc f() string { return strings.ToUpper(\"go\") }"},
		"Statement": {why: "a go statement, however deep", text: "func f() { if true { func() { go f() }() } }", want: true},
		"WaitGroup": {why: "sync.WaitGroup.Go has no go statement", text: "import \"sync\"\nfunc f() { var w sync.WaitGroup; w.Go(f) }", want: true},
		"Parallel":  {why: "tests of one package run beside each other", text: "import \"testing\"\nfunc TestF(t *testing.T) { t.Parallel() }", want: true},
		"AfterFunc": {why: "a timer calls in a goroutine", text: "import \"time\"\nfunc f() { time.AfterFunc(1, f) }", want: true},
		"Server":    {why: "net/http calls handlers in goroutines", text: "import \"net/http/httptest\"\nvar _ = httptest.NewServer", want: true},
		"Informers": {why: "client-go calls event handlers in goroutines", text: "import _ \"k8s.io/client-go/tools/cache\"", want: true},
		"Addresses": {why: "net/url only parses", text: "import _ \"net/url\""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+c.text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := startsGoroutines(file); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	packages := []listedPackage{
		{ImportPath: "m/pure", Imports: []string{"other/module"}, TestImports: []string{"m/data"}},
		{ImportPath: "m/data"},
		{ImportPath: "m/loop", own: true},
		{ImportPath: "m/above", Imports: []string{"m/between"}},
		{ImportPath: "m/between", Imports: []string{"m/loop"}},
		{ImportPath: "m/tested", TestImports: []string{"m/loop"}},
		{ImportPath: "m/outside", XTestImports: []string{"m/between"}},
		{ImportPath: "m/parallel", tests: true},
		{ImportPath: "m/beside", Imports: []string{"m/parallel"}}, // whose tests do not run here
	}
	want := []string{"m/loop", "m/above", "m/between", "m/tested", "m/outside", "m/parallel"}
	if diff := cmp.Diff(want, concurrent(packages)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The race detector's run has every package of the controllers, of the agent and of the
// ports, and no pure one.
func TestRaceRunHasConcurrentPackages(t *testing.T) {
	t.Chdir("../..")
	got, err := concurrentPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pkg/kube", "pkg/helm", "pkg/controllers/bundle", "pkg/agent/deploy", "pkg/agentmanagement/registration", "integrationtests/checkin", "pkg/plan/values"} {
		if !slices.Contains(got, module+"/"+name) {
			t.Errorf("%s is not among them", name)
		}
	}
	if i := slices.IndexFunc(got, func(p string) bool { return strings.HasSuffix(p, "/pkg/plan/rollout") }); i >= 0 {
		t.Error("the pure package plan/rollout is among them: what starts a goroutine there?")
	}
}
