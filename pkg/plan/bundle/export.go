package bundle

import (
	"encoding/json"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Export returns a Bundle as it is printed for people and files: kind, names, labels,
// annotations and spec, without what servers add.
//
// It fails for values that have no JSON, such as infinity.
func Export(b *fleet.Bundle) (map[string]any, error) {
	raw, err := json.Marshal(b.Spec)
	if err != nil {
		return nil, fmt.Errorf("print bundle %q: %w", b.Name, err)
	}
	spec := map[string]any{}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("print bundle %q: %w", b.Name, err)
	}
	metadata := map[string]any{"name": b.Name}
	if b.Namespace != "" {
		metadata["namespace"] = b.Namespace
	}
	if len(b.Labels) > 0 {
		metadata["labels"] = b.Labels
	}
	if len(b.Annotations) > 0 {
		metadata["annotations"] = b.Annotations
	}
	return map[string]any{
		"apiVersion": fleet.GroupVersion.String(), "kind": "Bundle", "metadata": metadata, "spec": spec,
	}, nil
}
