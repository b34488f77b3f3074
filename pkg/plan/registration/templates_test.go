package registration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// What templates see of a Cluster is part of deployment ids: a takeover must not change
// it, for a Cluster of any kind, or every chart that uses it is deployed again.
func TestTakeoverChangesNoTemplate(t *testing.T) {
	kinds := map[string]*fleet.Cluster{
		"Local":     of(map[string]string{"name": "local", fleet.LabelManagementCluster: "local", fleet.LabelDisplayName: "local"}, nil, nil),
		"Rancher":   of(map[string]string{fleet.LabelManagementCluster: "c-m-1", fleet.LabelDisplayName: "one", "env": "prod"}, map[string]string{"field.cattle.io/description": "d"}, nil),
		"Agent":     of(map[string]string{fleet.LabelCluster: "one", fleet.LabelClusterNamespace: "fleet-default", "env": "prod"}, map[string]string{"team": "a"}, nil),
		"Manager":   of(map[string]string{"env": "prod"}, nil, func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "one-kubeconfig" }),
		"External":  of(map[string]string{fleet.LabelClusterManagement: "another", "env": "prod"}, nil, nil),
		"Unmanaged": of(map[string]string{fleet.LabelNonManagedAgent: "true", "env": "prod"}, nil, nil),
		"Values": of(map[string]string{"env": "prod"}, nil, func(s *fleet.ClusterSpec) {
			s.TemplateValues = &fleet.GenericMap{Data: map[string]any{"zone": "a"}}
		}),
		"NoLabels": of(nil, nil, nil), // its values are not rendered at all
	}
	for name, before := range kinds {
		t.Run(name, func(t *testing.T) {
			after := registration.MarkCluster(before, "cluster-fleet-default-one", registration.Mark{ID: "abc"})
			after = heartbeat.Report(after, time.Minute)
			if diff := cmp.Diff(seen(t, before), seen(t, after)); diff != "" {
				t.Errorf("templates see something else after a takeover: %s", diff)
			}
			if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
				t.Errorf("labels that nothing would remove on the way back: %s", diff)
			}
		})
	}
}

func of(labels, annotations map[string]string, change func(*fleet.ClusterSpec)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "one", Labels: labels, Annotations: annotations}}
	c.Status.Namespace = "cluster-fleet-default-one"
	if change != nil {
		change(&c.Spec)
	}
	return c
}

// seen is all that a template can ask of a Cluster, as a template gets it.
func seen(t *testing.T, c *fleet.Cluster) map[string]any {
	t.Helper()
	facts := values.ClusterFacts{Name: c.Name, Namespace: c.Namespace, Labels: c.Labels, Annotations: c.Annotations}
	if c.Spec.TemplateValues != nil {
		facts.TemplateValues = c.Spec.TemplateValues.Data
	}
	o, err := values.Render(fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{
		"labels": "${ .ClusterLabels | toJson | quote }", "annotations": "${ .ClusterAnnotations | toJson | quote }",
		"values": "${ .ClusterValues | toJson | quote }", "name": "${ .ClusterName }", "namespace": "${ .ClusterNamespace }",
	}}}}, facts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o.Helm.Values.Data
}
