package kube

import (
	"fmt"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// partial are the API groups whose Go types know a part of their fields only. An
// object that was read into one of them and written as a whole would lose the rest.
var partial = map[string]bool{management.Group: true, provisioning.Group: true}

// refusePartial returns an error for a replacement of an object whose Go type lacks
// fields.
func (s *Store[P]) refusePartial(verb string, key Key) error {
	if !partial[s.kind.gvk.Group] {
		return nil
	}
	return fmt.Errorf("%s %s %q: Fleet knows a part of its fields only and would drop the others: patch it", verb, s.kind.gvk.GroupKind(), key)
}
