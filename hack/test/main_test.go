package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events is what go test -json prints for a package with a test that passes, one that
// fails and two that are skipped.
const events = `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"a line of a test that passes\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestSkipped","Output":"    a_test.go:1: no root\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkipped"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:2: wrong\n"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"skip","Package":"m/a","Test":"TestParts/one"}
{"Action":"output","Package":"m/a","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}
{"Action":"output","Package":"m/b","Output":"PASS\n"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.1s\n"}
{"Action":"pass","Package":"m/b"}
# m/c
c.go:1:1: syntax error
`

func TestReport(t *testing.T) {
	cases := map[string]struct {
		why     string
		verbose bool
		want    string
	}{
		"Short": {
			why: "what passes or is skipped prints nothing, a test that had not ended when its package failed prints all",
			want: "    a_test.go:2: wrong\n--- FAIL: TestBad (0.00s)\nFAIL\tm/a\t0.1s\npanic: test timed out\n" +
				"ok  \tm/b\t0.1s\n# m/c\nc.go:1:1: syntax error\n",
		},
		"Verbose": {
			why: "every line is printed as it comes", verbose: true,
			want: "=== RUN   TestGood\na line of a test that passes\n    a_test.go:1: no root\n    a_test.go:2: wrong\n--- FAIL: TestBad (0.00s)\n" +
				"panic: test timed out\nFAIL\tm/a\t0.1s\nok  \tm/b\t0.1s\n# m/c\nc.go:1:1: syntax error\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out, c.verbose)
			if err := r.read(strings.NewReader(events)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			want := []testID{{"m/a", "TestSkipped"}, {"m/a", "TestParts/one"}}
			if diff := cmp.Diff(want, r.skipped, cmp.AllowUnexported(testID{})); diff != "" {
				t.Errorf("skipped tests\n-want +got\n%s", diff)
			}
		})
	}
}

func TestCompareSkips(t *testing.T) {
	list := parseSkips([]byte("# needs root\n\na TestRoot\nb TestSlow/all\n"))
	cases := map[string]struct {
		why  string
		got  []string
		want []string
	}{
		"Same":    {why: "the order does not count", got: []string{"b TestSlow/all", "a TestRoot"}},
		"Another": {why: "a skipped test that is not in the list", got: []string{"a TestRoot", "b TestSlow/all", "c TestX"}, want: []string{"skipped, but not in the list: c TestX"}},
		"Fewer":   {why: "the list names a test that runs, or is gone", got: []string{"a TestRoot"}, want: []string{"in the list, but not skipped: b TestSlow/all"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compareSkips(list, c.got)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if err := checkSkips("x", list, c.got, true); (err != nil) != (c.want != nil) {
				t.Errorf("%s: error %v", c.why, err)
			}
			if err := checkSkips("x", list, c.got, false); err != nil {
				t.Errorf("not strict, and an error: %v", err)
			}
		})
	}
}

// The packages that take longest begin first, with the race detector those of them that
// it runs; the others keep their order.
func TestLongestFirst(t *testing.T) {
	all := []string{
		module + "/cmd/fleet", module + "/cmd/fleet-sandbox/node", module + "/integrationtests", module + "/integrationtests/agentmanagement",
		module + "/integrationtests/delivery", module + "/integrationtests/size", module + "/pkg/kube",
	}
	cases := map[string]struct {
		options options
		want    []string
	}{
		"Usual": {options{}, []string{
			module + "/integrationtests", module + "/integrationtests/agentmanagement", module + "/integrationtests/size",
			module + "/cmd/fleet", module + "/cmd/fleet-sandbox/node", module + "/integrationtests/delivery", module + "/pkg/kube",
		}},
		"Race": {options{race: true}, []string{module + "/cmd/fleet", module + "/integrationtests/delivery", module + "/pkg/kube"}},
		"Unit": {options{unit: true}, []string{module + "/cmd/fleet", module + "/pkg/kube"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.options.packages(all)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A package that is renamed is not forgotten in the list.
func TestLongestExist(t *testing.T) {
	for _, p := range longest {
		if files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(p), "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", p, err)
		}
	}
}
