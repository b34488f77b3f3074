package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BundleSummary counts deployments by state. An object that is not ready for
// two reasons is counted once, by the worst.
type BundleSummary struct {
	// NotReady counts deployments with objects that are not ready.
	// +optional
	NotReady int `json:"notReady,omitempty"`

	// WaitApplied counts deployments that the agent has not applied yet.
	// +optional
	WaitApplied int `json:"waitApplied,omitempty"`

	// ErrApplied counts deployments that the agent could not apply.
	// +optional
	ErrApplied int `json:"errApplied,omitempty"`

	// OutOfSync counts deployments with a change that is held back.
	// +optional
	OutOfSync int `json:"outOfSync,omitempty"`

	// Modified counts deployments with objects that were changed by others.
	// +optional
	Modified int `json:"modified,omitempty"`

	// Ready counts deployments without any of these.
	// +optional
	Ready int `json:"ready"`

	// Pending counts clusters that should get a deployment and have none yet.
	// +optional
	Pending int `json:"pending,omitempty"`

	// DesiredReady is the sum of all counts.
	// +optional
	DesiredReady int `json:"desiredReady"`

	// NonReadyResources names what is not ready, and why; at most 10.
	// +optional
	NonReadyResources []NonReadyResource `json:"nonReadyResources,omitempty"`
}

// NonReadyResource is one deployment, or cluster, that is not ready.
type NonReadyResource struct {
	// Name of the bundle or cluster.
	// +optional
	Name string `json:"name,omitempty"`

	// State is one of the seven state words.
	// +optional
	State BundleState `json:"bundleState,omitempty"`

	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`

	// ModifiedStatus lists objects that were changed by others.
	// +optional
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// NonReadyStatus lists objects that are not ready.
	// +optional
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`
}

// ModifiedStatus is one object that differs from what was deployed.
type ModifiedStatus struct {
	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// Create is true if the object is missing.
	// +optional
	Create bool `json:"missing,omitempty"`

	// Exist is true if the object is there but bears the mark of another owner.
	// +optional
	Exist bool `json:"exist,omitempty"`

	// Delete is true if the object should not be there.
	// +optional
	Delete bool `json:"delete,omitempty"`

	// Patch has the fields that differ, with the values that are there: it leads from what
	// was deployed to what is there. An agent of Rancher Fleet writes the opposite: the
	// values that were deployed. Its entries have no changes, those of this project's
	// agents have. Values of Secrets are never in it.
	// +optional
	Patch string `json:"patch,omitempty"`

	// Changes are the fields that differ, each with the one who changed it; at
	// most 5.
	// +optional
	Changes []FieldChange `json:"changes,omitempty"`
}

// FieldChange is one field that differs from what was deployed. Values are
// JSON, at most 100 characters; those of Secrets and of Helm values are hidden.
type FieldChange struct {
	// Field is the way to it: spec.template.spec.containers[name=web].image.
	Field string `json:"field"`

	// Wanted is the value that was deployed.
	// +optional
	Wanted string `json:"wanted,omitempty"`

	// Live is the value that was found; empty if the field is missing.
	// +optional
	Live string `json:"live,omitempty"`

	// Manager is who set the value that was found, as the API server has it;
	// empty if no field manager owns the field.
	// +optional
	Manager string `json:"manager,omitempty"`

	// Time is when that one wrote the object.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// String names the object and says how it differs, in one line.
func (m ModifiedStatus) String() string {
	text := describe(m.APIVersion, m.Kind, m.Namespace, m.Name)
	switch {
	case m.Create && m.Exist:
		return text + " is not owned by us"
	case m.Create:
		return text + " missing"
	case m.Delete:
		return text + " extra"
	}
	return text + " modified " + m.Patch
}

// NonReadyStatus is one object that is not ready.
type NonReadyStatus struct {
	// UID of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// Summary is the state of the object.
	// +optional
	Summary Summary `json:"summary,omitempty"`
}

// String names the object and its state, in one line.
func (n NonReadyStatus) String() string {
	return describe(n.APIVersion, n.Kind, n.Namespace, n.Name) + " " + n.Summary.String()
}

// Summary is the state of one live object.
type Summary struct {
	// State is one word, as Kubernetes dashboards show it.
	// +optional
	State string `json:"state,omitempty"`

	// Error is true if the object will not become ready by itself.
	// +optional
	Error bool `json:"error,omitempty"`

	// Transitioning is true if the object is on its way.
	// +optional
	Transitioning bool `json:"transitioning,omitempty"`

	// Message lists the reasons.
	// +optional
	Message []string `json:"message,omitempty"`
}

// String is the state alone if nothing is wrong, else "[progressing] ",
// "[progressing,error] " or "error] " and the messages. The first bracket of the last
// one is missing in the API, too.
func (s Summary) String() string {
	var flags string
	switch {
	case s.Transitioning && s.Error:
		flags = "[progressing,error]"
	case s.Transitioning:
		flags = "[progressing]"
	case s.Error:
		flags = "error]"
	default:
		return s.State
	}
	if len(s.Message) == 0 {
		return flags
	}
	return flags + " " + strings.Join(s.Message, ", ")
}

// describe names an object as "<kind>[.<group>] [<namespace>/]<name>". The
// group of a core object is its version: "configmap.v1".
func describe(apiVersion, kind, namespace, name string) string {
	text := strings.ToLower(kind)
	if apiVersion != "" {
		group, _, _ := strings.Cut(apiVersion, "/")
		text += "." + group
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return text + " " + name
}

// ResourceCounts counts deployed objects by state.
type ResourceCounts struct {
	// Ready counts objects that are as they should be.
	// +optional
	Ready int `json:"ready"`

	// DesiredReady is the number of objects that should be ready.
	// +optional
	DesiredReady int `json:"desiredReady"`

	// WaitApplied counts objects of deployments that are not applied yet.
	// +optional
	WaitApplied int `json:"waitApplied"`

	// Modified counts objects that were changed by others.
	// +optional
	Modified int `json:"modified"`

	// Orphaned counts objects that should not be there.
	// +optional
	Orphaned int `json:"orphaned"`

	// Missing counts objects that are gone.
	// +optional
	Missing int `json:"missing"`

	// Unknown counts objects whose state could not be found out.
	// +optional
	Unknown int `json:"unknown"`

	// NotReady counts objects that are not ready.
	// +optional
	NotReady int `json:"notReady"`
}
