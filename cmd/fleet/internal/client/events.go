package client

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Subject says which events belong to an answer: those about one object, or
// about all of Fleet's, in one namespace or in all.
type Subject struct {
	Namespace string
	Kind      string
	Name      string
}

// Query selects the events about the subject.
func (s Subject) Query() Query {
	set := fields.Set{"involvedObject.apiVersion": fleet.GroupVersion.String()}
	if s.Kind != "" {
		set["involvedObject.kind"] = s.Kind
	}
	if s.Name != "" {
		set["involvedObject.name"] = s.Name
	}
	return Query{Resource: events, Namespace: s.Namespace, Fields: set.String()}
}

// EventTime is when an event happened last.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
