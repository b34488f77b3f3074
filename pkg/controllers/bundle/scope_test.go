package bundle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

func TestDistrust(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	staged := `{"f:spec":{"f:stagedDeploymentID":{}}}`
	cases := map[string]struct {
		why     string
		fields  []metav1.ManagedFieldsEntry
		trusted bool
	}{
		"Ours":       {"our own write", []metav1.ManagedFieldsEntry{entry("fleet-controller", "", staged)}, true},
		"BesideThem": {"others may own other fields", []metav1.ManagedFieldsEntry{entry("fleetcontroller", "", `{"f:spec":{"f:paused":{}}}`), entry("fleet-controller", "", staged)}, true},
		"Theirs":     {"the reference has written another version, and kept our mark", []metav1.ManagedFieldsEntry{entry("fleetcontroller", "", staged), entry("fleet-controller", "", `{"f:metadata":{}}`)}, false},
		"Status":     {"a status says nothing of a version", []metav1.ManagedFieldsEntry{entry("fleet-controller", "status", staged)}, false},
		"Restored":   {"a copy has lost who wrote what", []metav1.ManagedFieldsEntry{entry("kubectl-create", "", staged)}, false},
		"NoManagers": {"without a word nothing is sure", nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
				ManagedFields: c.fields, Annotations: map[string]string{fleet.AnnotationInputHash: "inputs.outcome"}}}
			bd.Spec.StagedDeploymentID = "a:b"
			dropInputHash(bd)
			got := deployment.MarkOf(bd)
			if (got.Inputs == "inputs") != c.trusted {
				t.Errorf("%s: mark is %+v", c.why, got)
			}
			if got.Outcome != "outcome" || !got.Moved {
				t.Errorf("what came of it is judged by itself, got %+v", got)
			}
		})
	}
}

// Contents of others are theirs to delete, as long as there may be others.
func TestDeleteContent(t *testing.T) {
	for name, c := range map[string]struct {
		scope scope.Scope
		owner string
		want  bool
	}{
		"Ours":             {scope.Scope{}, "me", true},
		"Reference":        {scope.Scope{}, "", true},
		"Another":          {scope.Scope{}, "other", false},
		"ShardOurs":        {scope.Scope{Shard: "x"}, "me", true},
		"ShardReference":   {scope.Scope{Shard: "x"}, "", false},
		"WorkspaceUnknown": {scope.Scope{Workspaces: []string{"a"}}, "", false},
	} {
		e := &contentController{base: &base{cfg: Config{ManagerID: "me", Scope: c.scope}}}
		m := &metav1.PartialObjectMetadata{}
		if c.owner != "" {
			m.Labels = map[string]string{fleet.LabelManagerID: c.owner}
		}
		if got := e.mayDeleteContent(m); got != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}
