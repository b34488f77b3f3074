package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// Condition is one aspect of an object's state. An object has at most one
// condition of each type.
type Condition struct {
	// Type names the aspect, in CamelCase: Ready, Deployed, Accepted.
	Type string `json:"type"`

	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// ObservedGeneration is the metadata.generation that the condition speaks
	// of. 0 where the writer did not say.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// LastUpdateTime is when any part of the condition changed last, RFC 3339
	// in UTC.
	// +optional
	LastUpdateTime string `json:"lastUpdateTime,omitempty"`

	// LastTransitionTime is when Status changed last, RFC 3339 in UTC.
	// +optional
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`

	// Reason is one CamelCase word that programs may compare.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message explains the condition to a person, in one line of at most 200
	// characters. The same state gives the same message.
	// +optional
	Message string `json:"message,omitempty"`
}

// GenericMap is a free-form JSON object, such as Helm values.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type GenericMap struct {
	// Data is the object as encoding/json decodes it: numbers are float64.
	Data map[string]any `json:"-"`
}

// MarshalJSON writes the object with its keys sorted, or null without Data.
func (m GenericMap) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Data)
}

// UnmarshalJSON reads an object or null. What was in m before is dropped, and
// Data is never nil afterwards.
func (m *GenericMap) UnmarshalJSON(raw []byte) error {
	data := map[string]any{}
	if err := json.Unmarshal(raw, &data); err != nil {
		return err
	}
	if data == nil {
		data = map[string]any{}
	}
	m.Data = data
	return nil
}

// DeepCopyInto copies the whole tree of maps and lists.
func (m *GenericMap) DeepCopyInto(out *GenericMap) {
	out.Data = nil
	if m.Data != nil {
		out.Data = copyTree(m.Data).(map[string]any)
	}
}

// DeepCopy returns a copy that shares nothing with m.
func (m *GenericMap) DeepCopy() *GenericMap {
	if m == nil {
		return nil
	}
	out := new(GenericMap)
	m.DeepCopyInto(out)
	return out
}

func copyTree(v any) any {
	switch t := v.(type) {
	case map[string]any:
		if t == nil {
			return t
		}
		out := make(map[string]any, len(t))
		for k, e := range t {
			out[k] = copyTree(e)
		}
		return out
	case []any:
		if t == nil {
			return t
		}
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = copyTree(e)
		}
		return out
	default:
		return v
	}
}

// LocalObjectReference names an object in a namespace that is known from
// elsewhere.
type LocalObjectReference struct {
	// Name of the object.
	// +optional
	Name string `json:"name"`
}

// CorrectDrift says whether, and how, the agent puts back what others changed
// on the objects of a release.
type CorrectDrift struct {
	// Enabled turns the correction on. Default: off.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Force replaces objects that a patch cannot bring back. Default: off.
	// +optional
	Force bool `json:"force,omitempty"`

	// KeepFailHistory keeps the release revision of a correction that failed;
	// otherwise it is deleted. Default: off.
	// +optional
	KeepFailHistory bool `json:"keepFailHistory,omitempty"`
}
