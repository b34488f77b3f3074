package main

import (
	"fmt"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Objects are read one by one where they are few, and listed where they are many; those
// that are not there, or not for this user, are left out.
func TestFetchAs(t *testing.T) {
	key := func(name string) view.Key { return view.Key{Namespace: "fleet-default", Name: name} }
	for many, verb := range map[int]string{1: "get clusters", client.MaxGets + 1: "list clusters"} {
		keys := []view.Key{key("c1"), key("c1")}
		for i := 1; i < many; i++ {
			keys = append(keys, key(fmt.Sprintf("none-%d", i)))
		}
		f := newFake(t, "testdata/fleets/examples.yaml")
		s := &client.Session{Access: client.Access{API: f}}
		got, err := client.FetchAs[fleet.Cluster](t.Context(), s, cli.MustKind("clusters"), keys)
		if err != nil || len(got) != 1 || got[key("c1")] == nil || f.asked[len(f.asked)-1] != verb {
			t.Errorf("%d keys: got %v, %v, asked %v", many, got, err, f.asked)
		}
		f.refuse["clusters fleet-default"] = true
		if got, err := client.FetchAs[fleet.Cluster](t.Context(), s, cli.MustKind("clusters"), keys); err != nil || len(got) > 0 {
			t.Errorf("%d keys that the user may not read: got %v, %v", many, got, err)
		}
	}
}
