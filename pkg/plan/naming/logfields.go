package naming

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// LogFields returns the log fields of an object of users: its workspace, its name in the
// field kind, and in userID the user who made it, if Rancher has written that in a label.
func LogFields(kind string, o metav1.Object) map[string]any {
	out := map[string]any{"workspace": o.GetNamespace(), kind: o.GetName()}
	if user := o.GetLabels()[fleet.LabelCreatedByUserID]; user != "" {
		out["userID"] = user
	}
	return out
}
