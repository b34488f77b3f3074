package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Only a namespace without clusters makes that no target can match.
func TestStray(t *testing.T) {
	in := func(namespace, reason string) *fleet.Bundle {
		b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, reason, "", 0)}
		return b
	}
	f := Fleet{
		Clusters: []*fleet.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: "shops"}}},
		Bundles:  []*fleet.Bundle{in("shops", fleet.ReasonNoTargets), in("default", fleet.ReasonNoTargets), in("default", fleet.ReasonNoTargets), in("labs", "Other")},
	}
	if diff := cmp.Diff([]string{"default"}, f.StrayNamespaces()); diff != "" {
		t.Error(diff)
	}
}
