package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Environment of every role.
const (
	envShard = "FLEET_SHARD_ID" // the value of --shard-id if that is not given
	// CIDRs, separated by commas, of reserved addresses that are dialled for git,
	// charts, registries and imports.
	envAllowedReserved = "FLEET_ALLOWED_RESERVED_CIDRS"
)

// addScope adds the flags that say what the process looks after.
func (o *options) addScope(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&o.scope.Shard, "shard-id", getenv(envShard),
		"work on the objects only that name this `id` in their label fleet.cattle.io/shard-ref; without it on those that name none (env "+envShard+")")
	f.StringSliceVar(&o.scope.Workspaces, "workspaces", nil, "`namespaces` to work in; without it in all")
}

// forAll are the roles whose work cannot be divided by shards: one manager does it for
// all.
var forAll = []string{roleAgentManagement, roleCleanup, roleWorkspace}

// completeScope validates the scope of the process. If no roles were requested, it
// drops the default roles that this scope leaves to another manager; if they were
// requested (given), such roles are an error.
func (o *options) completeScope(given bool) error {
	if err := o.scope.Validate(); err != nil {
		return err
	}
	var not []string
	switch {
	case o.scope.Shard != "":
		not = forAll
	case len(o.scope.Workspaces) > 0:
		not = []string{roleWorkspace} // Rancher's objects are in no workspace
	}
	if !given {
		o.roles = slices.DeleteFunc(slices.Clone(o.roles), func(r string) bool { return slices.Contains(not, r) })
		return nil
	}
	var errs []error
	for _, r := range o.roles {
		if slices.Contains(not, r) {
			errs = append(errs, fmt.Errorf("--roles: %s is work for the manager of all objects, not for one that looks after %s", r, strings.TrimPrefix(o.scope.String(), "all ")))
		}
	}
	return errors.Join(errs...)
}
