package registration

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// An Assignment is the Cluster that a request gets.
type Assignment struct {
	Cluster *fleet.Cluster // the one that exists, or nil
	Name    string         // of the one to create, where none exists
	Refused string         // why there is none; the other fields are empty then
}

// Assign finds the Cluster for a request among those of its namespace: the one
// with the same clientID, or a new one that is named after it. Labels and
// names of an existing Cluster do not matter and do not change.
func Assign(r *fleet.ClusterRegistration, clusters []*fleet.Cluster) Assignment {
	if r.Spec.ClientID == "" || r.Spec.ClientRandom == "" {
		return Assignment{Refused: "the request has no clientID or no clientRandom"}
	}
	name := naming.RegisteredCluster(r.Spec.ClientID)
	var found *fleet.Cluster
	taken := false
	for _, c := range clusters {
		switch {
		case c.Namespace != r.Namespace:
		case c.Spec.ClientID == r.Spec.ClientID:
			if found == nil || older(c, found) {
				found = c
			}
		case c.Name == name:
			taken = true
		}
	}
	switch {
	case found != nil:
		return Assignment{Cluster: found}
	case taken:
		return Assignment{Refused: fmt.Sprintf("Cluster %q exists with another clientID", name)}
	}
	return Assignment{Name: name}
}

// older orders Clusters that share a clientID: by age, then by name.
func older(a, b *fleet.Cluster) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// NewCluster returns the Cluster that a request creates, with a token that puts it into a
// group; empty: into none.
func NewCluster(r *fleet.ClusterRegistration, name string, labels map[string]string, group string) *fleet.Cluster {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[fleet.LabelCluster] = name
	out := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name, Labels: all},
		Spec:       fleet.ClusterSpec{ClientID: r.Spec.ClientID},
	}
	if group != "" {
		out.Annotations = map[string]string{fleet.AnnotationTokenGroup: group}
	}
	return out
}
