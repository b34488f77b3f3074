package bundle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

// fleet explain and fleet target work out deployment ids as the manager does: from the
// same name of the content.
func TestContentOfPreviews(t *testing.T) {
	for name, b := range map[string]*fleet.Bundle{
		"Resources":       {Spec: fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "kind: A\n"}}}},
		"Nothing":         {},
		"InRegistry":      {Spec: fleet.BundleSpec{ContentsID: "s-1"}},
		"PulledByAgents":  {Spec: fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{}}},
		"PulledByManager": {Spec: fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{Pull: fleet.PullManager}}},
	} {
		want := preview.ContentID(b)
		stripped := b.DeepCopy()
		stripped.ManagedFields = []metav1.ManagedFieldsEntry{} // as it comes from the API server
		stripBundle(stripped)
		if got := contentID(stripped); got != want {
			t.Errorf("%s: the manager says %q, a preview %q", name, got, want)
		}
	}
}
