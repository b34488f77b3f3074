package naming

import fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// FleetAccount reports whether a ServiceAccount is one of Fleet's own, by its
// name: those of the charts, in the namespaces of agents and managers. No bundle
// may act as one of them.
func FleetAccount(name string) bool {
	switch name {
	case "fleet-agent", "fleet-controller", "fleet-controller-bootstrap", "gitjob", "helmops":
		return true
	}
	return false
}

// MarkedAccount reports whether a ServiceAccount bears a mark of those that a
// manager makes: for agents, registration tokens and imports.
func MarkedAccount(labels, annotations map[string]string) bool {
	for _, key := range []string{fleet.LabelManaged, fleet.LabelManagerID} {
		if _, ok := labels[key]; ok {
			return true
		}
	}
	for _, key := range []string{fleet.AnnotationClusterRegistration, fleet.AnnotationRenews} {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}
