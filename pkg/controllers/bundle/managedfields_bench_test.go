package bundle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Every event of a deployment is decoded, and then asks who has written its version.
// The second must stay a small part of the first: with 10,000 pairs both happen
// 10,000 times at each start.
func BenchmarkDistrust(b *testing.B) {
	raw, err := json.Marshal(delivered(40))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(raw, &fleet.BundleDeployment{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Ask", func(b *testing.B) {
		bd := delivered(40)
		b.ReportAllocs()
		for b.Loop() {
			dropInputHash(bd)
		}
	})
	b.Run("AskForeign", func(b *testing.B) {
		bd := delivered(40)
		bd.ManagedFields[0].Manager = "fleetcontroller"
		mark := bd.Annotations[fleet.AnnotationInputHash]
		b.ReportAllocs()
		for b.Loop() {
			bd.Annotations[fleet.AnnotationInputHash] = mark
			dropInputHash(bd)
		}
	})
}

// delivered is a deployment as an API server sends it, with some values and as many
// objects in its status as a larger chart has.
func delivered(objects int) *fleet.BundleDeployment {
	owned := strings.Builder{}
	for i := range 200 {
		fmt.Fprintf(&owned, `"f:value%d":{},`, i)
	}
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster-fleet-default-c1-0123456789ab", Name: "web", UID: "uid", ResourceVersion: "1",
		Labels:      map[string]string{fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "fleet-default"},
		Annotations: map[string]string{fleet.AnnotationInputHash: strings.Repeat("a", 64) + "." + strings.Repeat("b", 64)},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: fleet.FieldManagerController, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{}}},"f:spec":{"f:options":{"f:helm":{"f:values":{` + owned.String() + `".":{}}}},"f:stagedDeploymentID":{}}}`)},
			{Manager: "fleet-agent-p1", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", Subresource: "status",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{".":{},"f:appliedDeploymentID":{},"f:conditions":{},"f:resources":{}}}`)},
		},
	}}
	bd.Spec.StagedDeploymentID = strings.Repeat("c", 64) + ":" + strings.Repeat("d", 64)
	bd.Spec.DeploymentID = bd.Spec.StagedDeploymentID
	for i := range objects {
		bd.Status.Resources = append(bd.Status.Resources, fleet.BundleDeploymentResource{
			Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: fmt.Sprintf("part-%d", i)})
	}
	return bd
}
