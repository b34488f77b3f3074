package fanout

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseScenario(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		want scenario
		err  error
	}{
		"Plain":    {"sizes alone", "5000x1", scenario{clusters: 5000, bundles: 1, objects: 5}, nil},
		"All":      {"every variant", "200x50+values+limit+objects=50", scenario{clusters: 200, bundles: 50, objects: 50, values: true, limit: true}, nil},
		"Unknown":  {"a typing error must not measure something else", "10x1+value", scenario{}, errScenario},
		"Nothing":  {"no cluster is no fleet", "0x1", scenario{}, errScenario},
		"NoNumber": {"", "many", scenario{}, errScenario},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseScenario(c.text)
			if !errors.Is(err, c.err) {
				t.Fatalf("%s: want %v, got %v", c.why, c.err, err)
			}
			if err == nil {
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(scenario{})); diff != "" {
					t.Errorf("%s\n-want +got\n%s", c.why, diff)
				}
				if got.String() != c.text {
					t.Errorf("want %s, got %s", c.text, got)
				}
			}
		})
	}
}

// What is measured where nothing else is asked for can be read.
func TestDefaults(t *testing.T) {
	o, err := parseOptions(nil)
	if err != nil || len(o.scenarios) == 0 || o.quiet != time.Minute {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestPerPair(t *testing.T) {
	got := perPair(map[string]int{"create bundledeployments": 1000, "patch bundles/status": 3}, 1000)
	if want := "create bundledeployments 1.00/pair, patch bundles/status 3"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
