package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

func TestParseOptions(t *testing.T) {
	cases := map[string]struct {
		why  string
		args []string
		want []int // releases
		err  error
	}{
		"Defaults":   {"what the issue asks for", nil, []int{10, 100, 300}, nil},
		"Releases":   {"a part of it", []string{"-releases=5"}, []int{5}, nil},
		"Descending": {"releases are added, never removed", []string{"-releases=10,5"}, nil, errUsage},
		"Part":       {"a typing error must not measure nothing", []string{"-only=sped"}, nil, errUsage},
		"None":       {"nothing cannot be measured", []string{"-bundles=0"}, nil, errUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(c.args)
			if !errors.Is(err, c.err) {
				t.Fatalf("%s: want %v, got %v", c.why, c.err, err)
			}
			if diff := cmp.Diff(c.want, o.releases); err == nil && diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestCounted(t *testing.T) {
	list := []harness.Request{
		{Cluster: "hub", Verb: "patch", Group: "fleet.cattle.io", Resource: "clusters", Subresource: "status"},
		{Cluster: "site", Verb: "watch", Resource: "configmaps"},
		{Cluster: "site", Verb: "get", Resource: "secrets"},
		{Cluster: "site", Verb: "get", Resource: "secrets"},
		{Cluster: "hub", Verb: "patch", Group: "fleet.cattle.io", Resource: "bundledeployments", Subresource: "status"},
	}
	if got, want := counted(others(list)), "hub: patch bundledeployments/status 1, site: get secrets 2"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := counted(nil); got != "none" {
		t.Errorf("got %q", got)
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i))
	}
	if got := percentile(all, 99); got != 198 {
		t.Errorf("want 198, got %d", got)
	}
	if got := percentile(all[:1], 99); got != 200 {
		t.Errorf("want the only one, got %d", got)
	}
}
