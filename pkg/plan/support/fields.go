package support

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// collect keeps the names of the fields that are set.
type collect []string

func (c *collect) add(set bool, name string) {
	if set {
		*c = append(*c, name)
	}
}

func gitRepo(s *fleet.GitRepoSpec) []string {
	var c collect
	c.add(s.WebhookSecret != "", "webhookSecret")
	c.add(s.ImageScanInterval != nil, "imageScanInterval")
	c.add(s.ImageScanCommit != nil, "imageScanCommit")
	return c
}

func bundle(s *fleet.BundleSpec) []string {
	var c collect
	for i := range s.Targets {
		c.add(s.Targets[i].AllowedTargetNamespaceSelector != nil, "targets.allowedTargetNamespaceSelector")
	}
	return c
}
