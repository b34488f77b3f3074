package workspace

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// specChanged reports whether a user has changed the spec of an object, and not only
// its status. Such a change overtakes other queued objects: a start with thousands of
// clusters takes long, and a user is waiting.
func specChanged[P metav1.Object](old, now P, spec func(P) any) bool {
	return !maps.Equal(naming.UserKeys(old.GetLabels()), naming.UserKeys(now.GetLabels())) ||
		!maps.Equal(naming.UserKeys(old.GetAnnotations()), naming.UserKeys(now.GetAnnotations())) ||
		!equality.Semantic.DeepEqual(spec(old), spec(now))
}
