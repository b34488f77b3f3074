package preflight

import (
	"strings"
	"testing"
	"time"
)

const here, there = "cattle-fleet-system", "fleet-b"

func held(holder string) []Lease {
	return []Lease{{Name: "fleet-agentmanagement-lock", Holder: holder, Renewed: time.Second, Holds: 30 * time.Second}}
}

func TestDecide(t *testing.T) {
	self := Self{Namespace: here, Implementation: "fleet"}
	with := func(change func(*Self)) Self {
		s := self
		change(&s)
		return s
	}
	takeover, shard := with(func(s *Self) { s.Takeover = true }), with(func(s *Self) { s.Shard = true })
	limited := with(func(s *Self) { s.Limited = true })
	stale := held("x")
	stale[0].Renewed = time.Minute
	cases := map[string]struct {
		why  string
		self Self
		seen []Manager
		want Verdict
		text []string // in the reason
	}{
		"Alone":        {"the first start", self, nil, Begin, nil},
		"Own":          {"its own chart, and the replica that holds the lease", self, []Manager{{Namespace: here, Configured: true, Version: "v0.1.0", Implementation: "fleet", Ready: 1, Leases: held("y")}}, Begin, nil},
		"OwnUpgraded":  {"its ConfigMap is new before its pods are", self, []Manager{{Namespace: here, Configured: true, Version: "v0.2.0", Implementation: "fleet", Ready: 1}}, Begin, nil},
		"InPlace":      {"the chart has been upgraded from the reference's: its pods end when ours are ready, and hold the leases until then", self, []Manager{{Namespace: here, Configured: true, Version: "v0.1.0", Implementation: "fleet", Ready: 1, Leases: held("reference")}}, Begin, nil},
		"ByHand":       {"a ConfigMap that says nothing was made by a person", self, []Manager{{Namespace: here, Configured: true}}, Begin, nil},
		"NotUpgraded":  {"settings of another implementation are not for us", self, []Manager{{Namespace: here, Configured: true, Version: "v0.16.1"}}, Refuse, []string{here, "v0.16.1", "charts", "--takeover"}},
		"NotUpgraded2": {"the same, by a person's word: the leases exclude", takeover, []Manager{{Namespace: here, Configured: true, Version: "v0.16.1", Ready: 1, Leases: held("x")}}, Begin, nil},
		"Reference":    {"two would undo each other's work", self, []Manager{{Namespace: there, Configured: true, Version: "v0.16.1", Ready: 1, Leases: held("x")}}, Refuse, []string{there, "v0.16.1", "another implementation", "ready pods", `held by "x"`, "--takeover"}},
		"Ours":         {"of one implementation too", self, []Manager{{Namespace: there, Configured: true, Version: "v0.1.0", Implementation: "fleet", Leases: held("x")}}, Refuse, []string{there, "(version v0.1.0)"}},
		"Program":      {"one that runs outside of the cluster has a lease and nothing else", self, []Manager{{Namespace: there, Leases: held("laptop")}}, Refuse, []string{"laptop"}},
		"Without":      {"one without leases has pods", self, []Manager{{Namespace: there, Configured: true, Ready: 1}}, Refuse, []string{"ready pods"}},
		"Stranger":     {"a Deployment of that name alone is anybody's", self, []Manager{{Namespace: there, Ready: 1}}, Begin, nil},
		"Ended":        {"what is left of it does nothing", self, []Manager{{Namespace: there, Configured: true, Version: "v0.16.1", Leases: stale}}, Begin, nil},
		"Released":     {"a lease without a holder was given back", self, []Manager{{Namespace: there, Leases: held("")}}, Begin, nil},
		"Replaces":     {"it is to replace the other: never both at once", takeover, []Manager{{Namespace: there, Configured: true, Ready: 1}}, Wait, []string{"waits", "kubectl -n " + there}},
		"Replaced":     {"the other has ended", takeover, []Manager{{Namespace: there, Configured: true, Leases: stale}}, Begin, nil},
		"Limited":      {"people have divided the workspaces", limited, []Manager{{Namespace: there, Configured: true, Version: "v0.1.0", Implementation: "fleet", Leases: held("x")}}, Begin, nil},
		"Unlimited":    {"the reference works in all workspaces", limited, []Manager{{Namespace: there, Configured: true, Version: "v0.16.1", Leases: held("x")}}, Refuse, []string{"v0.16.1"}},
		"Shard":        {"people have divided the work", shard, []Manager{{Namespace: here, Configured: true, Version: "v0.16.1"}, {Namespace: there, Leases: held("x")}}, Begin, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, why := Decide(c.self, c.seen)
			if got != c.want || (got == Begin) != (why == "") || strings.Contains(why, "\n") {
				t.Errorf("%s: got %v, %q", c.why, got, why)
			}
			for _, part := range c.text {
				if !strings.Contains(why, part) {
					t.Errorf("%s: no %q in %q", c.why, part, why)
				}
			}
		})
	}
}

// What is logged while it waits is logged once: it does not change with the time.
func TestSameText(t *testing.T) {
	self := Self{Namespace: here, Takeover: true}
	a := []Manager{{Namespace: there, Leases: held("x")}}
	b := []Manager{{Namespace: there, Leases: held("x")}}
	b[0].Leases[0].Renewed = 2 * time.Second
	_, one := Decide(self, a)
	if _, two := Decide(self, b); one != two {
		t.Errorf("got %q, then %q", one, two)
	}
}
