package drift

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// text writes a patch without what must not be shown, and with long values
// cut.
func (e Expected) text(diff map[string]any) string {
	data, err := json.Marshal(e.shortenStrings(diff))
	if err != nil {
		return "{}"
	}
	return string(data)
}

// longest is how many characters of a value are shown.
const longest = 100

// shortenStrings is a copy of a patch in which strings are made fit to be shown.
func (e Expected) shortenStrings(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, child := range t {
			out[k] = e.shortenStrings(child)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, child := range t {
			out[i] = e.shortenStrings(child)
		}
		return out
	case string:
		return e.shortenText(t)
	}
	return v
}

// shortenText is a text that is fit to be shown; a long one ends at a word.
func (e Expected) shortenText(text string) string {
	if e.Hide != nil {
		text = e.Hide(text)
	}
	return condition.Cut(text, longest+1) // with "…"
}

// hidden stands in the place of what a Secret holds.
const hidden = "(hidden)"

func isSecret(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Secret" && o.GetAPIVersion() == "v1"
}

// isHiddenField reports whether the value of a field of a Secret is hidden.
func isHiddenField(names []string) bool {
	return names[0] == "data" || names[0] == "stringData" || len(names) > 1 && names[0] == "metadata" && names[1] == "annotations"
}

// hideValues replaces the values in the patch of a Secret.
func hideValues(diff map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		values, ok := diff[field].(map[string]any)
		if !ok {
			if diff[field] != nil {
				diff[field] = hidden
			}
			continue
		}
		for k, v := range values {
			if v != nil {
				values[k] = hidden
			}
		}
	}
	metadata, ok := diff["metadata"].(map[string]any)
	if !ok {
		return
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return
	}
	for k, v := range annotations {
		if v != nil {
			annotations[k] = hidden // kubectl keeps whole objects in one
		}
	}
}
