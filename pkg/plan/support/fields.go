package support

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// fieldCollector keeps the names of the fields that are set.
type fieldCollector []string

func (c *fieldCollector) addField(set bool, name string) {
	if set {
		*c = append(*c, name)
	}
}

func bundle(s *fleet.BundleSpec) []string {
	var c fieldCollector
	for i := range s.Targets {
		c.addField(s.Targets[i].AllowedTargetNamespaceSelector != nil, "targets.allowedTargetNamespaceSelector")
	}
	return c
}
