package workspace

import (
	"encoding/json"
	"reflect"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// AnnotationMapped on a mapped object holds a digest of it, by which the manager sees that
// fields are to be taken back. AnnotationMappedFrom is "<namespace>/<name>" of the
// provisioning Cluster that a Fleet Cluster was mapped from: the manager removes only Fleet
// Clusters that have it.
const (
	AnnotationMapped     = "fleet.cattle.io/mapped"
	AnnotationMappedFrom = "fleet.cattle.io/mapped-from"
)

// Digest returns a digest of the fields to write.
func Digest(want any) (string, error) { return naming.StatusHash(want) }

// HasFields reports whether everything that want says stands in live, whatever else
// stands there. Both are objects of the same kind; lists are compared as a whole.
func HasFields(live, want any) (bool, error) {
	l, err := asJSON(live)
	if err != nil {
		return false, err
	}
	w, err := asJSON(want)
	if err != nil {
		return false, err
	}
	return hasFields(l, w), nil
}

// asJSON is an object as JSON has it.
func asJSON(obj any) (any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(data, &out)
	return out, err
}

func hasFields(live, want any) bool {
	fields, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(live, want)
	}
	have, ok := live.(map[string]any)
	if !ok {
		return len(fields) == 0 && live == nil
	}
	for name, w := range fields {
		if w == nil {
			continue // it says nothing, as creationTimestamp does
		}
		if !hasFields(have[name], w) {
			return false
		}
	}
	return true
}
