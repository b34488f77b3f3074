package join

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

func TestParseOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []int
		err  error
	}{
		"Default": {nil, []int{500}, nil},
		"Some":    {[]string{"-agents", "10,200"}, []int{10, 200}, nil},
		"None":    {[]string{"-agents", "0"}, nil, errUsage},
		"Words":   {[]string{"-agents", "10x"}, nil, errUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(c.args)
			if !errors.Is(err, c.err) {
				t.Fatalf("want %v, got %v", c.err, err)
			}
			if diff := cmp.Diff(c.want, o.agents); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCensus(t *testing.T) {
	before, after := census{"pods": 2, "secrets": 5}, census{"pods": 2, "secrets": 9, "roles": 2, "jobs": 0}
	more := after.minus(before)
	if diff := cmp.Diff(census{"secrets": 4, "roles": 2}, more); diff != "" {
		t.Error(diff)
	}
	if more.total() != 6 || more.per(2) != "1 roles, 2 secrets" || !more.same(after.minus(before)) || more.same(after) {
		t.Errorf("%d, %s", more.total(), more.per(2))
	}
}

func TestCountRequests(t *testing.T) {
	by, refused := countRequests([]harness.Request{
		{Agent: "fleet-agent/bench (register)"}, {Agent: "fleet-controller/v1 (tokens)", Code: 429}, {Agent: "fleet-agentmanagement/v1"},
		{Agent: "kube-controller-manager/v1.36"}, {Agent: "kube-scheduler", Resource: "leases"}, {Agent: "bench"}, {User: "system:apiserver"},
	})
	if diff := cmp.Diff(map[string]int{whoAgent: 1, whoManager: 2, whoKubernetes: 1}, by); diff != "" || refused != 1 {
		t.Errorf("%d refused, %s", refused, diff)
	}
}
