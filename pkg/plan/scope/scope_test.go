package scope

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestOwns(t *testing.T) {
	in := func(namespace string, shard ...string) metav1.Object {
		o := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"env": "dev"}}}
		if len(shard) > 0 {
			o.Labels[fleet.LabelShardRef] = shard[0]
		}
		return o
	}
	cases := map[string]struct {
		why    string
		scope  Scope
		object metav1.Object
		want   bool
	}{
		"DefaultTakesWhatHasNoShard":   {"without a word about shards everything is as it always was", Scope{}, in("a"), true},
		"DefaultLeavesAShardAlone":     {"another manager works on it", Scope{}, in("a", "x"), false},
		"DefaultLeavesTheEmptyLabel":   {"the reference's default shard asks for the label, not for its value", Scope{}, in("a", ""), false},
		"ShardTakesItsOwn":             {"this is what it was started for", Scope{Shard: "x"}, in("a", "x"), true},
		"ShardLeavesAnother":           {"a third manager works on it", Scope{Shard: "x"}, in("a", "y"), false},
		"ShardLeavesTheDefault":        {"the reference works on it", Scope{Shard: "x"}, in("a"), false},
		"ShardLeavesTheEmptyLabel":     {"an empty label is not this shard's", Scope{Shard: "x"}, in("a", ""), false},
		"WorkspaceTakesItsOwn":         {"one of several", Scope{Workspaces: []string{"b", "a"}}, in("a"), true},
		"WorkspaceLeavesAnother":       {"it was not asked to", Scope{Workspaces: []string{"b"}}, in("a"), false},
		"ShardWithinWorkspaces":        {"both have to fit", Scope{Shard: "x", Workspaces: []string{"b"}}, in("a", "x"), false},
		"ShardWithinWorkspacesTakesIt": {"both fit", Scope{Shard: "x", Workspaces: []string{"a"}}, in("a", "x"), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.scope.Owns(c.object); got != c.want {
				t.Errorf("%s: %s: want %v", c.why, c.scope, c.want)
			}
		})
	}
}

// Of all managers with different IDs, exactly one owns an object, unless the
// object names an ID that no manager has.
func TestOneOwner(t *testing.T) {
	managers := []Scope{{}, {Shard: "x"}, {Shard: "y"}}
	for _, labels := range []map[string]string{nil, {fleet.LabelShardRef: "x"}, {fleet.LabelShardRef: "y"}, {fleet.LabelShardRef: "z"}, {fleet.LabelShardRef: ""}} {
		owners := 0
		for _, s := range managers {
			if s.Takes("a", labels) {
				owners++
			}
		}
		want := 1
		if id, ok := labels[fleet.LabelShardRef]; ok && (id == "z" || id == "") {
			want = 0
		}
		if owners != want {
			t.Errorf("%v: %d owners, want %d", labels, owners, want)
		}
	}
}

func TestLease(t *testing.T) {
	if got := (Scope{Workspaces: []string{"a"}}).Lease("l"); got != "l" {
		t.Errorf("two managers of one installation must exclude each other, got lease %q", got)
	}
	if got := (Scope{Shard: "x"}).Lease("l"); got != "l-x" {
		t.Errorf("the reference's name is l-x, got %q", got)
	}
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]Scope{
		"":                {Shard: "blue-1", Workspaces: []string{"fleet-default"}},
		`shard id "a b"`:  {Shard: "a b"},
		`shard id "Blue"`: {Shard: "Blue"}, // no name of a lease
		`workspace "a/b"`: {Workspaces: []string{"a/b"}},
		`workspace ""`:    {Workspaces: []string{""}},
	} {
		err := s.Validate()
		if (want == "") != (err == nil) || err != nil && err.Error()[:len(want)] != want {
			t.Errorf("%+v: want %q, got %v", s, want, err)
		}
	}
}
