package commands

import (
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// threeTiers is a fleet in which a downstream cluster has a manager of its own:
// local manages lower, and the manager on lower manages leaf. Both managers deploy
// examples/, of which one bundle is for env=prod alone: each needs such a cluster, for
// a bundle that targets no cluster never becomes Ready.
func threeTiers() []fleet.Downstream {
	prod := func() map[string]string { return map[string]string{"env": "prod"} }
	return []fleet.Downstream{{
		Name: "lower", Labels: prod(), Downstream: []fleet.Downstream{{Name: "leaf", Labels: prod()}},
	}}
}

// find is the cluster of a name among clusters and all that are below them; nil
// where there is none.
func find(list []fleet.Downstream, name string) *fleet.Downstream {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
		if d := find(list[i].Downstream, name); d != nil {
			return d
		}
	}
	return nil
}

// tiers says which managers there are, one line each; nothing where there is one.
func tiers(list []fleet.Downstream) []string {
	lines := below("local", list)
	if len(lines) < 2 {
		return nil
	}
	return lines
}

// below says what the manager on a cluster manages, and then what those do that
// it manages.
func below(host string, list []fleet.Downstream) []string {
	if len(list) == 0 {
		return nil
	}
	var names, more []string
	for _, d := range list {
		names = append(names, d.Name)
		more = append(more, below(d.Name, d.Downstream)...)
	}
	return append([]string{fmt.Sprintf("the manager on %s manages %s", host, strings.Join(names, ", "))}, more...)
}

// managerOf is the cluster whose manager a name means: "manager" is that on local,
// "lower/manager" the one on lower. It is false for the name of a cluster.
func managerOf(name string) (string, bool) {
	if name == fleet.Manager {
		return "local", true
	}
	return strings.CutSuffix(name, "/"+fleet.Manager)
}
