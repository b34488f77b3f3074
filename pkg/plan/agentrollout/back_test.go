package agentrollout

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestWayBack: Helm deletes what a later release does not contain. The agent's bundle
// of rancher/fleet contains these objects and no others; what its agent finds beside
// them has to stay when it takes the place of ours.
func TestWayBack(t *testing.T) {
	reference := []string{
		"ClusterRole/role", "ClusterRoleBinding/role-binding", "Deployment/fleet-agent", "NetworkPolicy/default-allow-all",
		"ServiceAccount/default", "ServiceAccount/fleet-agent",
	}
	wants := map[string]func(*fleet.Cluster){
		"Chart":  nil,
		"Wishes": wishes,
		"Import": func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" },
		"Local":  local,
	}
	for name, change := range wants {
		t.Run(name, func(t *testing.T) {
			m := plain(t)
			build, err := m.Build()
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Bundle(cluster(change), build)
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			goes := map[string]bool{}
			for _, text := range strings.Split(b.Spec.Resources[0].Content, "---\n")[1:] {
				var o struct {
					Kind     string
					Metadata struct {
						Name, Namespace string
						Annotations     map[string]string
					}
				}
				if err := yaml.Unmarshal([]byte(text), &o); err != nil {
					t.Fatal(err)
				}
				object := o.Kind + "/" + strings.TrimPrefix(o.Metadata.Name, b.Spec.DefaultNamespace+"-fleet-agent-")
				switch {
				case o.Metadata.Annotations[fleet.AnnotationHelmResourcePolicy] == "keep":
					kept = append(kept, object)
				case !slices.Contains(reference, object):
					goes[o.Kind] = true
				}
			}
			if diff := cmp.Diff([]string{"ConfigMap/fleet-agent"}, kept); diff != "" {
				t.Errorf("what stays: -want +got\n%s", diff)
			}
			var wished []string // for which rancher/fleet asks again when it imports the cluster
			if name == "Wishes" {
				wished = []string{"PodDisruptionBudget", "PriorityClass"}
			}
			if diff := cmp.Diff(wished, slices.Sorted(maps.Keys(goes))); diff != "" {
				t.Errorf("what goes: -want +got\n%s", diff)
			}
		})
	}
}
