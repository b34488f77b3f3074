package bundle

import (
	"encoding/json"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Export is a Bundle as it is printed for people and files: kind, names, labels,
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
	dropEmptyIgnore(spec)
	if targets, ok := spec["targets"].([]any); ok {
		for _, t := range targets {
			if target, ok := t.(map[string]any); ok {
				dropEmptyIgnore(target)
			}
		}
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

// dropEmptyIgnore removes the field that is printed although nobody has set it:
// it is a struct, not a pointer.
func dropEmptyIgnore(options map[string]any) {
	if m, ok := options["ignore"].(map[string]any); ok && len(m) == 0 {
		delete(options, "ignore")
	}
}
