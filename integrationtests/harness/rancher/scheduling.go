package rancher

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Settings with the defaults of scheduling of Fleet's agents.
const (
	settingPriorityClass = "fleet-agent-default-priority-class"
	settingBudget        = "fleet-agent-default-pod-disruption-budget"
)

// annotationScheduling asks once for these defaults, or for none.
const annotationScheduling = "provisioning.cattle.io/enable-fleet-scheduling-customization"

// scheduling is where a Cluster of either kind says how Fleet's agent is scheduled.
var scheduling = []string{"spec", "fleetAgentDeploymentCustomization", "schedulingCustomization"}

// backfill gives Fleet's agent the defaults of scheduling where the Cluster asks for them
// and says nothing itself, and takes away what it says where it asks for none. It asks once.
func (s *session) backfill(r schema.GroupVersionResource, obj *object) (*object, error) {
	annotations := obj.GetAnnotations()
	asks := strings.ToLower(annotations[annotationScheduling])
	if asks != "true" && asks != "false" {
		return nil, nil
	}
	custom, _ := field(obj, scheduling...).(map[string]any)
	if asks == "false" {
		custom = nil
	} else if custom == nil {
		for part, setting := range map[string]string{"priorityClass": settingPriorityClass, "podDisruptionBudget": settingBudget} {
			value := s.setting(setting)
			if value == "" {
				continue
			}
			var preset map[string]any
			if err := json.Unmarshal([]byte(value), &preset); err != nil {
				return nil, err
			}
			if custom == nil {
				custom = map[string]any{}
			}
			custom[part] = preset
		}
	}
	unstructured.RemoveNestedField(obj.Object, scheduling...)
	if custom != nil {
		set(obj, custom, scheduling...)
	}
	delete(annotations, annotationScheduling)
	obj.SetAnnotations(annotations)
	return s.update(r, obj)
}

// backfillProvisioning is backfill for a provisioning Cluster.
func (s *session) backfillProvisioning(p *object) (*object, error) {
	return s.backfill(ProvClusters, p)
}

// backfillLegacy is backfill for a management Cluster that comes first.
func (s *session) backfillLegacy(m *object) (*object, error) {
	if !legacy(m.GetName()) {
		return nil, nil
	}
	return s.backfill(Clusters, m)
}
