package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

func TestScope(t *testing.T) {
	all := []string{roleController, roleAgentManagement, roleCleanup, roleWorkspace}
	cases := map[string]struct {
		why   string
		scope scope.Scope
		roles []string // of the flag --roles; nil: the flag is not set
		want  []string
		err   string
	}{
		"Everything": {"without a word nothing changes", scope.Scope{}, nil, all, ""},
		"Shard": {"clusters and their agents are looked after by one manager, which is another", scope.Scope{Shard: "x"}, nil,
			[]string{roleController}, ""},
		"ShardReads": {"repositories of a shard are read by its own process", scope.Scope{Shard: "x"}, []string{roleGitJob}, []string{roleGitJob}, ""},
		"ShardOfAgents": {"two managers would register the same agents", scope.Scope{Shard: "x"}, []string{roleController, roleAgentManagement}, nil,
			"--roles: agentmanagement is work for the manager of all objects, not for one that looks after objects of shard x"},
		"Workspaces": {"clusters are in workspaces, Rancher's are not", scope.Scope{Workspaces: []string{"a"}}, nil,
			[]string{roleController, roleAgentManagement, roleCleanup}, ""},
		"WorkspacesOfRancher": {"it would be done in part", scope.Scope{Workspaces: []string{"a"}}, []string{roleWorkspace}, nil,
			"--roles: workspace is work for the manager of all objects, not for one that looks after objects without a shard in a"},
		"OddShard": {"a typing error names no shard", scope.Scope{Shard: "a b"}, nil, nil, `shard id "a b"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &options{scope: c.scope, roles: all}
			if c.roles != nil {
				o.roles = c.roles
			}
			err := o.completeScope(c.roles != nil)
			if (c.err == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Fatalf("%s: want %q, got %v", c.why, c.err, err)
			}
			if err == nil && !cmp.Equal(c.want, o.roles) {
				t.Errorf("%s: %s", c.why, cmp.Diff(c.want, o.roles))
			}
		})
	}
}
