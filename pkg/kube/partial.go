package kube

import (
	"fmt"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// partial are the API groups whose Go types know a part of their fields only. An
// object that was read into one of them and written as a whole would lose the rest.
var partial = map[string]bool{management.Group: true, provisioning.Group: true}

// whole refuses to replace an object of a partial kind.
func (s *Store[P]) whole(verb string, key Key) error {
	if !partial[s.kind.gvk.Group] {
		return nil
	}
	return fmt.Errorf("%s %s %q: Fleet knows a part of its fields only and would drop the others: patch it", verb, s.kind.gvk.GroupKind(), key)
}
