package deployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The namespace that an administrator sets reaches every deployment of a
// Bundle, also those that are up to date, and deploys none of them again.
func TestAdminNamespaceReachesDeployments(t *testing.T) {
	p := place("dev")
	before := order(t, compiled(t, map[string]any{"a": "b"}), p, true)
	old, err := Compose(before, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, data := bundle(map[string]any{"a": "b"})
	b.Labels[fleet.LabelAdminNamespace] = "true"
	k, err := Compile(b, "s-1", data)
	if err != nil {
		t.Fatal(err)
	}
	after := order(t, k, p, true)
	if after.Version.ID != before.Version.ID || after.inputHashMark() != before.inputHashMark() {
		t.Errorf("it is deployed again: %s %s, before %s %s", after.Version.ID, after.inputHashMark(), before.Version.ID, before.inputHashMark())
	}
	if IsCurrent(k, p, old.Object, after.Version.ID) {
		t.Error("the label is missing")
	}
	got := PatchMetadata(k, p, old.Object, after.Version.ID)
	if got.Labels[fleet.LabelAdminNamespace] != "true" {
		t.Errorf("labels %v", got.Labels)
	}
	if diff := cmp.Diff(old.Object.Spec, got.Spec); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	b, data = bundle(map[string]any{"a": "b"})
	if k, err = Compile(b, "s-1", data); err != nil {
		t.Fatal(err)
	}
	if free := PatchMetadata(k, p, got, after.Version.ID); free.Labels[fleet.LabelAdminNamespace] != "" {
		t.Error("the label stays although the GitRepo limits nothing any more")
	}
}
